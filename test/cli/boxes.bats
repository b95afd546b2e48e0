#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --decode yolo, ssd and detr: boxes in pixels of the picture, counted by hand, and drawn onto it. Labels of Ultralytics.

load helper

setup() {
	in_test_data
	unset INFER_DEVICE
	need_python
	# models that hand on their inputs: "images" f32 [1,3,32,32], which rgb.png (24 x 16) is put into, and what a detector says
	PYTHONPATH=$BATS_TEST_DIRNAME/../tools PYTHONDONTWRITEBYTECODE=1 python3 - "$out" <<-'PYTHON'
		import json, struct, sys
		from message import num, part
		out = sys.argv[1]
		def value(name, kind, dims):
		    shape = b"".join(part(1, num(1, d)) for d in dims)
		    return part(1, name) + part(2, part(1, num(1, kind) + part(2, shape)))
		def model(file, ports, meta=b""):
		    ports = {"images": (1, [1, 3, 32, 32])} | ports
		    graph = part(2, "g")
		    for name, (kind, dims) in ports.items():
		        graph += part(1, part(1, name) + part(2, "out_" + name) + part(4, "Identity"))
		        graph += part(11, value(name, kind, dims)) + part(12, value("out_" + name, kind, dims))
		    open(f"{out}/{file}.onnx", "wb").write(num(1, 8) + part(7, graph) + part(8, num(2, 17)) + meta)
		def floats(file, rows):
		    open(f"{out}/{file}.bin", "wb").write(struct.pack(f"<{len(rows)}f", *rows))
		names = part(14, part(1, "names") + part(2, "{0: 'person', 1: \"a 'quoted' dog\"}"))
		# x, y, width, height, two classes; the second overlaps the first, the last is too unlikely; columns as in YOLOv8
		rows = [(16, 16, 16, 8, .9, .1), (16, 16, 15, 8, .8, .1), (16, 16, 16, 8, .1, .7), (4, 4, 2, 2, .2, .1)]
		rows += [(0, 0, 0, 0, 0, 0)] * 4
		model("yolo", {"p": (1, [1, 6, 8])}, names)
		floats("yolo", [r[k] for k in range(6) for r in rows])
		model("detr", {"logits": (1, [1, 3, 3]), "boxes": (1, [1, 3, 4])}, names)
		floats("logits", [5, 0, 0, 0, 0, 9, 0, 4, 0])
		floats("boxes", [.5, .5, .5, .25, .5, .5, 1, 1, .25, .5, .125, .125])
		model("ssd", {"detection_boxes": (1, [1, 2, 4]), "detection_scores": (1, [1, 2]), "detection_classes": (1, [1, 2])})
		floats("db", [.25, .5, .75, 1, 0, 0, 1, 1])
		floats("ds", [.75, .1])
		floats("dc", [1, 0])
	PYTHON
}

@test "yolo: columns of boxes, suppressed by class, in pixels of the picture" {
	run -0 --separate-stderr "$INFER" run "$out/yolo.onnx" --input images=rgb.png,resize=32x32 --input p="$out/yolo.bin" \
		--decode yolo --labels meta:names
	# x from 8 to 24 of 32 is 6 to 18 of 24; y from 12 to 20 of 32 is 6 to 10 of 16
	[ "$output" = $'person 0.900 6.0 6.0 18.0 10.0\na \'quoted\' dog 0.700 6.0 6.0 18.0 10.0' ]
	# in a letterbox the picture is 32 x 21 with 5 rows above it: scale 4/3
	run -0 --separate-stderr "$INFER" run "$out/yolo.onnx" --input images=rgb.png,resize=letterbox:32x32 \
		--input p="$out/yolo.bin" --decode yolo:score=0.8 --labels meta:names
	[ "$output" = 'person 0.900 6.0 5.2 18.0 11.2' ]
	run -0 --separate-stderr "$INFER" run "$out/yolo.onnx" --input images=rgb.png,resize=32x32 --input p="$out/yolo.bin" \
		--decode yolo:iou=1 --json
	[ "$(grep -c '"score"' <<<"$output")" = 3 ]
}

@test "detr and ssd" {
	run -0 --separate-stderr "$INFER" run "$out/detr.onnx" --input images=rgb.png,resize=32x32 \
		--input logits="$out/logits.bin" --input boxes="$out/boxes.bin" --decode detr --labels meta:names
	# softmax of 5, 0, 0 is 0.987; the second is nothing; of 0, 4, 0 it is 0.965
	[ "$output" = $'person 0.987 6.0 6.0 18.0 10.0\na \'quoted\' dog 0.965 4.5 7.0 7.5 9.0' ]
	run -0 --separate-stderr "$INFER" run "$out/ssd.onnx" --input images=rgb.png,resize=32x32 \
		--input detection_boxes="$out/db.bin" --input detection_scores="$out/ds.bin" --input detection_classes="$out/dc.bin" --decode ssd
	[ "$output" = '1 0.750 12.0 4.0 24.0 12.0' ]
	# the wrong kind of detector: the right one is named
	run -4 --separate-stderr "$INFER" run "$out/ssd.onnx" --input images=rgb.png,resize=32x32 \
		--input detection_boxes="$out/db.bin" --input detection_scores="$out/ds.bin" --input detection_classes="$out/dc.bin" --decode yolo
	[[ $stderr == *"hint: they are as those of --decode ssd"* ]]
}

@test "-o FILE.png draws the boxes onto the picture" {
	"$INFER" run "$out/yolo.onnx" --input images=rgb.png,resize=32x32 --input p="$out/yolo.bin" --decode yolo -o "$out/b.png" -q >/dev/null
	[ -f "$out/b.png" ] && [ ! -d "$out/b.png" ]
	# the frame is red there, and the rest of the picture is as it was
	run -0 "$INFER" run pic.onnx --input "$out/b.png" -q --print=0
	drawn=("${lines[@]}")
	run -0 "$INFER" run pic.onnx --input rgb.png -q --print=0
	[ "$(cut -d' ' -f7 <<<"${drawn[7]}")" = 230 ]
	[ "${drawn[1]}" = "${lines[1]}" ] && [ "${drawn[16]}" = "${lines[16]}" ]
	# without a picture there is nothing to draw onto
	run -2 "$INFER" run "$out/yolo.onnx" --random 0..1 --input p="$out/yolo.bin" --decode yolo -o "$out/c.png"
}

@test "-o FILE.png writes label and score above each box" {
	{
		printf 'P6\n200 120\n255\n'
		head -c 72000 /dev/zero | tr '\0' 'd'
	} >"$out/gray.ppm"
	"$INFER" convert <(echo '<ir_version: 8, opset_import: ["" : 17]> g (uint8[1,3,h,w] x) => (uint8[1,3,h,w] y) { y = Identity (x) }') \
		"$out/same.onnx" --form binary
	picture() { # LABELS
		"$INFER" run "$out/yolo.onnx" --input images="$out/gray.ppm,resize=32x32" --input p="$out/yolo.bin" \
			--decode yolo:score=0.8 "$@" -o "$out/p.png" -q >/dev/null
		"$INFER" run "$out/same.onnx" --input "$out/p.png" -q -o "$out/p" --save-format bin
	}
	pixels() { # X Y N: the red of N pixels
		od -An -v -tu1 -j $(($2 * 200 + $1)) -N "$3" -w"$3" "$out/p/y.bin" | tr -s ' '
	}
	picture --labels meta:names
	# the box is from 50, 45 to 150, 75; above it, on the color of the class, stands PERSON 0.90 in white: the top of the P
	[ "$(pixels 49 37 7)" = " 100 230 255 255 255 255 230" ]
	[ "$(pixels 49 38 7)" = " 100 230 255 230 230 230 255" ]
	# eleven letters of six points, less the last gap, and a margin of one point
	[ "$(pixels 116 37 3)" = " 230 100 100" ]
	[ "$(pixels 49 35 3)" = " 100 100 100" ]
	# without labels it is the number: a 0
	picture
	[ "$(pixels 49 37 7)" = " 100 230 230 255 255 255 230" ]
}

@test "Outputs of another kind, and words that are none, are refused" {
	run -4 "$INFER" run pic.onnx --input rgb.png --decode detr
	[[ $output == *"not those of such a detector"* ]]
	for word in yolov8 yolo:score=2 detr:x=1 yolo:; do
		run -2 "$INFER" run pic.onnx --input rgb.png --decode $word
		[[ $output == *"yolo, ssd or detr"* ]]
	done
}
