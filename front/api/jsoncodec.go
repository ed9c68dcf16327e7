package api

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"recalld/front/strictjson"
)

// jsonCodec is the JSON form of the contract: field names as they stand in it,
// unknown fields and mended texts refused.
type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Marshal(message any) ([]byte, error) {
	m, err := asMessage(message)
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

func (jsonCodec) Unmarshal(data []byte, message any) error {
	m, err := asMessage(message)
	if err != nil {
		return err
	}
	if err := strictjson.Check("request", data); err != nil {
		return err
	}
	return protojson.Unmarshal(data, m)
}

func asMessage(message any) (proto.Message, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message of the contract", message)
	}
	return m, nil
}
