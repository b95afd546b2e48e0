#!/usr/bin/env bats
# Multi-device annotations: shown by inspect, kept by convert and extract.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	bats_require_minimum_version 1.5.0
	cd "$BATS_TEST_TMPDIR" || return 1
	cat >m.json <<-'END'
		{"irVersion": "11", "opsetImport": [{"version": "21"}],
		 "configuration": [{"name": "two", "numDevices": 2, "device": ["a", "b"]}, {"name": "four", "numDevices": 4}],
		 "graph": {"name": "g",
		  "input": [{"name": "x", "type": {"tensorType": {"elemType": 1, "shape": {"dim": [{"dimValue": "4"}]}}}}],
		  "output": [{"name": "y", "type": {"tensorType": {"elemType": 1, "shape": {"dim": [{"dimValue": "4"}]}}}}],
		  "node": [
		   {"opType": "Exp", "name": "first", "input": ["x"], "output": ["h"], "deviceConfigurations": [
		    {"configurationId": "two", "pipelineStage": 0, "shardingSpec": [
		     {"tensorName": "x", "device": ["0", "1"],
		      "shardedDim": [{"axis": "0", "simpleSharding": [{"dimValue": "4", "numShards": "2"}]}]},
		     {"tensorName": "h", "device": ["-1"], "indexToDeviceGroupMap": [{"key": "-1", "value": ["0", "1"]}]}]},
		    {"configurationId": "four"}]},
		   {"opType": "Relu", "name": "last", "input": ["h"], "output": ["y"],
		    "deviceConfigurations": [{"configurationId": "two", "pipelineStage": 1}]}]}}
	END
	"$INFER" convert m.json m.onnx
}

@test "inspect tells configurations, and with --nodes how each node is spread" {
	run -0 "$INFER" inspect m.onnx --nodes
	[[ $output = *"devices     two  2 devices: a, b; 2 nodes annotated"* ]]
	[[ $output = *"devices     four  4 devices; 1 node annotated"* ]]
	[[ $output = *"placements
     two  Exp  first  stage 0
          x  on devices 0, 1; axis 0 (4) in 2 parts
          h  on device -1; -1 stands for 0, 1
     four  Exp  first
     two  Relu  last  stage 1" ]]
	run -0 "$INFER" inspect m.onnx --json
	[[ $output = *'"device_configurations": ['*'"names": ["a", "b"]'*'"placements": ['*'"stage": 1'* ]]
}

@test "convert and extract keep the annotations; the text form has no place for them and says so" {
	"$INFER" convert m.onnx back.json
	"$INFER" convert back.json back.onnx
	"$INFER" convert back.onnx again.json
	cmp back.json again.json
	grep -q indexToDeviceGroupMap again.json
	"$INFER" extract m.onnx --from x --to h -o part.onnx -q
	run -0 "$INFER" inspect part.onnx --nodes
	[[ $output = *"devices     four  4 devices; 1 node annotated"*"x  on devices 0, 1; axis 0 (4) in 2 parts"* ]]
	[[ $output != *"Relu"* ]]
	run -0 "$INFER" convert m.onnx m.onnxtxt
	[[ $output = *"the text form has no place for"* ]]
}
