#!/usr/bin/env bats
# Folders of ONNX Runtime GenAI: what inspect tells of them, and that the line it proposes runs.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	bats_require_minimum_version 1.5.0
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir -p folder
	config '"eos_token_id": [5, 9]' '{"do_sample": false, "max_length": 2048}'
	# The next id is the last one and 1; the state is what went before.
	cat >text.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["" : 21]>
		g (int64[1,sequence] input_ids, int64[1,total] mask, int64[1,past_sequence_length] past_0_key) =>
		  (float[1,sequence,10] logits, int64[1,all] present_0_key) <
		  int64 one = {1}, int64[1] ten = {10}, float[2] values = {0.0, 1.0}> {
		  next = Add (input_ids, one)
		  logits = OneHot (next, ten, values)
		  present_0_key = Concat <axis = 1> (past_0_key, input_ids)
		}
	END
	"$INFER" convert text.onnxtxt folder/model.onnx
}

config() { # MODEL_MEMBERS SEARCH [DECODER_MEMBERS]
	cat >folder/genai_config.json <<-END
		{"model": {"type": "llama", "vocab_size": 32000, "context_length": 4096, $1, "decoder": {
		  "filename": "model.onnx", "num_hidden_layers": 1, ${3:-}
		  "inputs": {"input_ids": "input_ids", "attention_mask": "mask", "past_key_names": "past_%d_key"},
		  "outputs": {"logits": "logits", "present_key_names": "present_%d_key"}},
		  "vision": {"filename": "vision.onnx", "inputs": {"pixel_values": "pixels"}, "outputs": {"image_features": "features"}}},
		 "search": $2}
	END
}

@test "inspect names the parts of a folder, their files and how to run the decoder" {
	for path in folder folder/genai_config.json; do
		run -0 --separate-stderr "$INFER" inspect $path
		[ "${lines[0]}" = "config      folder/genai_config.json  llama, 1 layer, 32,000 ids, context of 4,096" ]
		[[ ${lines[1]} = "decoder     model.onnx  "*" B" ]]
		[ "${lines[2]}" = "  inputs    input_ids, mask, past_%d_key" ]
		[ "${lines[4]}" = "vision      vision.onnx  not there" ]
		[[ $stderr = *"W-MODEL-OPEN"*"folder/vision.onnx is not there"* ]]
	done
	run -0 --separate-stderr "$INFER" inspect folder --json
	[[ $output = *'"name": "vision"'*'"bytes": null'*'"run": "infer run folder/model.onnx'* ]]
}

@test "The line that inspect proposes generates until an id that ends the text" {
	run -0 --separate-stderr "$INFER" inspect folder
	[ "${lines[-1]#run         }" = "infer run folder/model.onnx --input input_ids=PROMPT.npy --feed 'present_*_key=past_*_key' \
--next input_ids=argmax:logits --derive mask=ones --until 5,9 --steps 128" ]
	line=${lines[-1]#run         infer }
	line=${line/PROMPT.npy/\'[[1,2]]\'}
	run -0 --separate-stderr eval "\"\$INFER\" $line -q --print 0"
	[[ $output = *$'input_ids.next i64 [1,3]\n3 4 5'* ]]
	run -0 --separate-stderr eval "\"\$INFER\" ${line/folder\/model.onnx/folder} -q --print 0"
	[[ $output = *$'input_ids.next i64 [1,3]\n3 4 5'* ]]
}

@test "Sampling, one end and a short limit are in the line" {
	config '"eos_token_id": 2' '{"do_sample": true, "temperature": 0.7, "top_k": 50, "max_length": 20}'
	run -0 --separate-stderr "$INFER" inspect folder
	[[ $output = *"--next input_ids=sample:logits,temperature=0.7,top=50 --derive mask=ones --until 2 --steps 20" ]]
}

@test "A decoder of several models has no line, and each is told" {
	config '"eos_token_id": 2' '{}' '"pipeline": [{"embed": {"filename": "e.onnx"}}, {"head": {"filename": "h.onnx"}}],'
	run -0 --separate-stderr "$INFER" inspect folder
	[[ $output = *"decoder.embed  e.onnx  not there"*"decoder.head  h.onnx  not there"*"no line to run it: the decoder is a pipeline"* ]]
}

@test "A file that is no configuration, or a decoder outside of the folder, is refused" {
	echo '{"a": 1}' >folder/genai_config.json
	run -3 "$INFER" inspect folder
	[[ $output = *"E-MODEL-FORMAT"*"no configuration of ONNX Runtime GenAI"* ]]
	echo '{"model": {"decoder": {"filename": "../text.onnxtxt"}}}' >folder/genai_config.json
	run -0 "$INFER" inspect folder
	[[ $output = *"no line to run it"*"no decoder in its folder"* ]]
	run -3 "$INFER" run folder
	[[ $output = *"names no decoder in its folder"* ]]
	echo '{' >folder/genai_config.json
	run -3 "$INFER" run folder
	[[ $output = *"E-MODEL-FORMAT"* ]]
}

@test "The lines for an encoder and its decoder run: each result of the encoder is an input of every step" {
	mkdir whisper
	cat >whisper/genai_config.json <<-'END'
		{"model": {"type": "whisper", "vocab_size": 10, "context_length": 448, "eos_token_id": 50257, "decoder": {
		  "filename": "decoder.onnx", "num_hidden_layers": 2, "inputs": {"input_ids": "input_ids",
		   "past_key_names": "past_key_self_%d", "cross_past_key_names": "past_key_cross_%d"},
		  "outputs": {"logits": "logits", "present_key_names": "present_key_self_%d"}},
		 "encoder": {"filename": "encoder.onnx", "num_hidden_layers": 2, "inputs": {"audio_features": "audio_features"},
		  "outputs": {"cross_present_key_names": "present_key_cross_%d"}}}, "search": {"max_length": 448}}
	END
	cat >encoder.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["" : 21]>
		g (float[1,frames] audio_features) => (float[1,frames] present_key_cross_0, float[1,frames] present_key_cross_1) <float two = {2.0}> {
		  present_key_cross_0 = Neg (audio_features)
		  present_key_cross_1 = Mul (audio_features, two)
		}
	END
	cat >decoder.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["" : 21]>
		g (int64[1,sequence] input_ids, int64[1,past] past_key_self_0, int64[1,past] past_key_self_1, float[1,frames] past_key_cross_0,
		   float[1,frames] past_key_cross_1) => (float[1,sequence,10] logits, int64[1,all] present_key_self_0, int64[1,all] present_key_self_1) <
		  int64[1] ten = {10}, float[2] values = {0.0, 1.0}, int64[1] one = {1}> {
		  both = Add (past_key_cross_0, past_key_cross_1)
		  sum = ReduceSum <keepdims = 0> (both, one)
		  more = Cast <to = 7> (sum)
		  next = Add (input_ids, more)
		  id = Mod (next, ten)
		  logits = OneHot (id, ten, values)
		  present_key_self_0 = Concat <axis = 1> (past_key_self_0, input_ids)
		  present_key_self_1 = Concat <axis = 1> (past_key_self_1, input_ids)
		}
	END
	for part in encoder decoder; do "$INFER" convert $part.onnxtxt whisper/$part.onnx; done
	run -0 --separate-stderr "$INFER" inspect whisper
	[ "${lines[-1]#run         }" = "infer run whisper/encoder.onnx --input audio_features=FEATURES.npy -o encoded && \
infer run whisper/decoder.onnx --input input_ids=PROMPT.npy --input past_key_cross_0=encoded/present_key_cross_0.npy \
--input past_key_cross_1=encoded/present_key_cross_1.npy --feed 'present_key_self_*=past_key_self_*' --next input_ids=argmax:logits \
--until 50257 --steps 128" ]
	line=${lines[-1]#run         }
	line=${line//infer run/\"\$INFER\" run -q}
	line=${line/FEATURES.npy/\'[[1,2]]\'}
	line=${line/PROMPT.npy/\'[[1]]\'}
	run -0 --separate-stderr eval "${line/--steps 128/--steps 3} --print 0"
	[[ $output = *$'input_ids.next i64 [1,3]\n4 7 0'* ]] # 3 more each time
}

@test "The lines for the first step of a model with a picture run: its features and the prompt's ids become embeddings" {
	mkdir vlm
	cat >vlm/genai_config.json <<-'END'
		{"model": {"type": "phi3v", "vocab_size": 10, "context_length": 64, "eos_token_id": 2, "decoder": {
		  "filename": "text.onnx", "num_hidden_layers": 1, "inputs": {"inputs_embeds": "inputs_embeds", "attention_mask": "attention_mask",
		   "past_key_names": "past.%d.key"}, "outputs": {"logits": "logits", "present_key_names": "present.%d.key"}},
		 "embedding": {"filename": "embedding.onnx", "inputs": {"input_ids": "ids", "image_features": "features"},
		  "outputs": {"inputs_embeds": "embeds"}},
		 "vision": {"filename": "vision.onnx", "inputs": {"pixel_values": "pixels"}, "outputs": {"image_features": "seen"}}},
		 "search": {"max_length": 64}}
	END
	cat >vision.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["" : 21]>
		g (float[n,2] pixels) => (float[n,2] seen) { seen = Neg (pixels) }
	END
	cat >embedding.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["" : 21]>
		g (int64[1,s] ids, float[n,2] features) => (float[1,all,2] embeds) <float[3,2] table = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}, int64[1] first = {0}> {
		  words = Gather (table, ids)
		  more = Unsqueeze (features, first)
		  embeds = Concat <axis = 1> (more, words)
		}
	END
	cat >text.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["" : 21]>
		g (float[1,s,2] inputs_embeds, int64[1,total] attention_mask, float[1,past,2] "past.0.key") => (float[1,s,2] logits, float[1,total,2] "present.0.key") {
		  logits = Identity (inputs_embeds)
		  "present.0.key" = Concat <axis = 1> ("past.0.key", inputs_embeds)
		}
	END
	for part in vision embedding text; do "$INFER" convert $part.onnxtxt vlm/$part.onnx; done
	run -0 --separate-stderr "$INFER" inspect vlm
	[[ $output = *"no line to run it: the decoder takes embeddings"* ]]
	[ "${lines[-1]#first step  }" = "infer run vlm/vision.onnx --input pixels=pixel_values.npy -o vision && \
infer run vlm/embedding.onnx --input ids=input_ids.npy --input features=vision/seen.npy -o embedding && \
infer run vlm/text.onnx --input inputs_embeds=embedding/embeds.npy --feed 'present.*.key=past.*.key' --derive attention_mask=ones --steps 1" ]
	line=${lines[-1]#first step  }
	line=${line//infer run/\"\$INFER\" run -q}
	line=${line/pixel_values.npy/\'[[1,2]]\'}
	line=${line/input_ids.npy/\'[[2]]\'}
	run -0 --separate-stderr eval "$line --print 0"
	[[ $output = *"logits"*"[1,2,2]"* ]]
}
