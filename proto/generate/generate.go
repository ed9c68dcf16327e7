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

// contract is a file to compile, relative to the module's proto folder, and the
// plugins that turn it into Go, each with its parameter.
type contract struct {
	name    string
	plugins [][2]string
}

func contracts() []contract {
	messages := [2]string{"protoc-gen-go", "paths=source_relative"}
	return []contract{
		{"recalld/v1/recalld.proto", [][2]string{messages, {"protoc-gen-connect-go", "paths=source_relative,simple"}}},
		{"recalld/scanner/v1/scanner.proto", [][2]string{messages, {"protoc-gen-go-grpc", "paths=source_relative"}}},
		{"recalld/scanner/v1/words.proto", [][2]string{messages, {"protoc-gen-go-grpc", "paths=source_relative"}}},
	}
}

// file is one generated file; name is relative to the module's proto folder.
type file struct {
	name    string
	content []byte
}

// generate compiles the contracts of the module at root and returns what the
// plugins make of them. It writes nothing.
func generate(ctx context.Context, root string) ([]file, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "proto")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	var files []file
	for _, c := range contracts() {
		compiled, err := compiler.Compile(ctx, c.name)
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w", c.name, err)
		}
		descriptors := withImports(compiled[0])
		for _, plugin := range c.plugins {
			made, err := runPlugin(ctx, root, plugin[0], plugin[1], c.name, descriptors)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", plugin[0], err)
			}
			files = append(files, made...)
		}
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

func runPlugin(ctx context.Context, root, tool, parameter, contract string, descriptors []*descriptorpb.FileDescriptorProto) ([]file, error) {
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
