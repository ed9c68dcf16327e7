package api

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"recalld/memory"
)

// maxFields is how many fields and list entries a request may have, those of
// messages inside it included: more than the largest store, which the service
// bounds by name, and few enough that a request of two-byte entries does not
// become gigabytes of structs.
const maxFields = 1 << 17

// protoCodec is the binary form of the contract. It counts before it allocates.
type protoCodec struct{}

func (protoCodec) Name() string { return "proto" }

func (protoCodec) Marshal(message any) ([]byte, error) {
	m, err := asMessage(message)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

// MarshalAppend lets Connect reuse its buffers.
func (protoCodec) MarshalAppend(to []byte, message any) ([]byte, error) {
	m, err := asMessage(message)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

func (protoCodec) Unmarshal(data []byte, message any) error {
	m, err := asMessage(message)
	if err != nil {
		return err
	}
	if _, err := countFields(m.ProtoReflect().Descriptor(), data, maxFields); err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}

// countFields refuses bytes of a message that has, with the messages inside it,
// more than left fields. It returns how many are left.
func countFields(d protoreflect.MessageDescriptor, data []byte, left int) (int, error) {
	for len(data) > 0 {
		if left--; left < 0 {
			return 0, &memory.FieldError{Field: "request", Problem: "has too many fields and list entries", Limit: strconv.Itoa(maxFields), Next: "send less at once"}
		}
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return 0, protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if size < 0 {
			return 0, protowire.ParseError(size)
		}
		field := d.Fields().ByNumber(number)
		if field != nil && field.Message() != nil && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(data[tag:])
			var err error
			if left, err = countFields(field.Message(), inner, left); err != nil {
				return 0, err
			}
		}
		data = data[tag+size:]
	}
	return left, nil
}
