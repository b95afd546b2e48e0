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

@test "simplify gives a sharded tensor its new name, and tells which annotations go with their nodes" {
	cat >s.json <<-'END2'
		{"irVersion": "11", "opsetImport": [{"version": "21"}], "configuration": [{"name": "two", "numDevices": 2}],
		 "graph": {"name": "g",
		  "input": [{"name": "x", "type": {"tensorType": {"elemType": 1, "shape": {"dim": [{"dimValue": "4"}]}}}}],
		  "output": [{"name": "y", "type": {"tensorType": {"elemType": 1, "shape": {"dim": [{"dimValue": "4"}]}}}}],
		  "node": [{"opType": "Exp", "name": "first", "input": ["x"], "output": ["h"]},
		   {"opType": "Identity", "name": "gone", "input": ["h"], "output": ["k"], "deviceConfigurations": [{"configurationId": "two"}]},
		   {"opType": "Relu", "name": "last", "input": ["k"], "output": ["y"], "deviceConfigurations": [{"configurationId": "two",
		    "shardingSpec": [{"tensorName": "k", "device": ["0", "1"]}, {"tensorName": "y", "device": ["0"]}]}]}]}}
	END2
	"$INFER" convert s.json s.onnx
	run -0 "$INFER" simplify s.onnx -o small.onnx
	[[ $output = *"warning[W-MODEL-FORMAT]: node 'gone' (Identity): the multi-device annotations of 1 node are left out"* ]]
	run -0 "$INFER" inspect small.onnx --nodes
	[[ $output = *"          h  on devices 0, 1"*"          y  on device 0"* ]]
	[[ $output != *"          k  on"* ]]
}

@test "annotations inside bodies and functions are shown" {
	cat >b.json <<-'END2'
		{"irVersion": "11", "opsetImport": [{"version": "21"}, {"domain": "my", "version": "1"}],
		 "configuration": [{"name": "two", "numDevices": 2}],
		 "functions": [{"name": "Twice", "domain": "my", "input": ["p"], "output": ["q"], "opsetImport": [{"version": "21"}],
		  "node": [{"opType": "Add", "name": "sum", "input": ["p", "p"], "output": ["q"],
		   "deviceConfigurations": [{"configurationId": "two", "pipelineStage": 2}]}]}],
		 "graph": {"name": "g",
		  "input": [{"name": "x", "type": {"tensorType": {"elemType": 1, "shape": {"dim": [{"dimValue": "4"}]}}}},
		   {"name": "c", "type": {"tensorType": {"elemType": 9, "shape": {}}}}],
		  "output": [{"name": "y", "type": {"tensorType": {"elemType": 1, "shape": {"dim": [{"dimValue": "4"}]}}}}],
		  "node": [{"opType": "If", "name": "if", "input": ["c"], "output": ["h"], "attribute": [
		   {"name": "then_branch", "type": "GRAPH", "g": {"name": "t", "node": [{"opType": "Exp", "name": "inner", "input": ["x"],
		    "output": ["a"], "deviceConfigurations": [{"configurationId": "two", "pipelineStage": 1}]}], "output": [{"name": "a"}]}},
		   {"name": "else_branch", "type": "GRAPH", "g": {"name": "e", "node": [{"opType": "Relu", "input": ["x"], "output": ["b"]}],
		    "output": [{"name": "b"}]}}]},
		   {"opType": "Twice", "domain": "my", "name": "call", "input": ["h"], "output": ["y"]}]}}
	END2
	"$INFER" convert b.json b.onnx
	run -0 "$INFER" inspect b.onnx --nodes
	[[ $output = *"devices     two  2 devices; 2 nodes annotated"*"two  Exp  inner  stage 1"*"two  Add  sum  stage 2"* ]]
}
