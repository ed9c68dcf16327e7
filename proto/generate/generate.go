package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// contract is the file to compile, relative to the module's proto folder.
const contract = "recalld/v1/recalld.proto"

// file is one generated file; name is relative to the module's proto folder.
type file struct {
	name    string
	content []byte
}

// generate compiles the contract of the module at root and returns what the two
// plugins make of it. It writes nothing.
func generate(ctx context.Context, root string) ([]file, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "proto")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, contract)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", contract, err)
	}
	descriptors := withImports(compiled[0])
	var files []file
	for _, plugin := range []struct{ tool, parameter string }{
		{"protoc-gen-go", "paths=source_relative"},
		{"protoc-gen-connect-go", "paths=source_relative,simple"},
	} {
		made, err := runPlugin(ctx, root, plugin.tool, plugin.parameter, descriptors)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin.tool, err)
		}
		files = append(files, made...)
	}
	return files, nil
}

// withImports returns the file and all that it imports, imports first, as a
// plugin wants them.
func withImports(root protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	var ordered []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var visit func(protoreflect.FileDescriptor)
	visit = func(fd protoreflect.FileDescriptor) {
		if seen[fd.Path()] {
			return
		}
		seen[fd.Path()] = true
		imports := fd.Imports()
		for i := range imports.Len() {
			visit(imports.Get(i).FileDescriptor)
		}
		ordered = append(ordered, protodesc.ToFileDescriptorProto(fd))
	}
	visit(root)
	return ordered
}

func runPlugin(ctx context.Context, root, tool, parameter string, descriptors []*descriptorpb.FileDescriptorProto) ([]file, error) {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{contract},
		Parameter:      &parameter,
		ProtoFile:      descriptors,
	})
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "tool", tool)
	command.Dir = root
	command.Stdin = bytes.NewReader(request)
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	var files []file
	for _, f := range response.GetFile() {
		files = append(files, file{f.GetName(), []byte(f.GetContent())})
	}
	return files, nil
}

// moduleRoot returns the nearest folder at or above the working one that holds
// go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod at or above the working folder")
		}
		dir = parent
	}
}
