package api

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"recalld/memory"
)

// The types of package coordinator and the messages of the contract have the
// same fields under the same names, so one walk over a struct translates either
// way. A field without a counterpart is an error; a test walks every type.

var (
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawJSON         = reflect.TypeFor[json.RawMessage]()
)

// toMessage fills m from the struct, or pointer to one, src. A text that is not
// UTF-8 cannot travel and is refused by the name of its field.
func toMessage(m proto.Message, src any) error {
	v := reflect.ValueOf(src)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return errors.New("translate: no value")
		}
		v = v.Elem()
	}
	return writeStruct(m.ProtoReflect(), v)
}

// fromMessage fills the struct that dst points at. Lists that JSON always shows
// are empty, not nil.
func fromMessage(dst any, m proto.Message) error {
	return readStruct(reflect.ValueOf(dst).Elem(), m.ProtoReflect())
}

func writeStruct(m protoreflect.Message, v reflect.Value) error {
	for i := range v.NumField() {
		field := v.Field(i)
		if absent(field) {
			continue
		}
		name, _ := jsonName(v.Type().Field(i))
		fd, err := counterpart(m, v, name)
		if err != nil {
			return err
		}
		if err := writeField(m, fd, field); err != nil {
			return within(name, err)
		}
	}
	return nil
}

func writeField(m protoreflect.Message, fd protoreflect.FieldDescriptor, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice && v.Type() != rawJSON {
		if fd.Kind() == protoreflect.MessageKind && !fd.IsList() {
			m = m.Mutable(fd).Message()
			fd = m.Descriptor().Fields().ByName("values")
		}
		list := m.Mutable(fd).List()
		for i := range v.Len() {
			if err := appendValue(list, fd, v.Index(i)); err != nil {
				return within("["+strconv.Itoa(i)+"]", err)
			}
		}
		return nil
	}
	if fd.Kind() == protoreflect.MessageKind {
		return writeStruct(m.Mutable(fd).Message(), v)
	}
	value, err := scalar(v)
	if err != nil {
		return err
	}
	m.Set(fd, value)
	return nil
}

func appendValue(list protoreflect.List, fd protoreflect.FieldDescriptor, v reflect.Value) error {
	if fd.Kind() == protoreflect.MessageKind {
		element := list.NewElement()
		if err := writeStruct(element.Message(), v); err != nil {
			return err
		}
		list.Append(element)
		return nil
	}
	value, err := scalar(v)
	if err != nil {
		return err
	}
	list.Append(value)
	return nil
}

func scalar(v reflect.Value) (protoreflect.Value, error) {
	var text string
	switch {
	case v.Kind() == reflect.String:
		text = v.String()
	case v.Kind() == reflect.Bool:
		return protoreflect.ValueOfBool(v.Bool()), nil
	case v.CanInt():
		return protoreflect.ValueOfInt64(v.Int()), nil
	case v.CanFloat():
		return protoreflect.ValueOfFloat64(v.Float()), nil
	case v.Type() == rawJSON:
		text = string(v.Bytes())
	case v.Type().Implements(textMarshaler):
		b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return protoreflect.Value{}, err
		}
		text = string(b)
	default:
		return protoreflect.Value{}, fmt.Errorf("translate: %s has no form on the wire", v.Type())
	}
	if !utf8.ValidString(text) {
		return protoreflect.Value{}, memory.CheckText("", text, len(text))
	}
	return protoreflect.ValueOfString(text), nil
}

func readStruct(v reflect.Value, m protoreflect.Message) error {
	for i := range v.NumField() {
		name, optional := jsonName(v.Type().Field(i))
		fd, err := counterpart(m, v, name)
		if err != nil {
			return err
		}
		field := v.Field(i)
		if !m.Has(fd) {
			if !optional && field.Kind() == reflect.Slice {
				field.Set(reflect.MakeSlice(field.Type(), 0, 0))
			}
			continue
		}
		if err := readField(field, m.Get(fd), fd); err != nil {
			return within(name, err)
		}
	}
	return nil
}

func readField(v reflect.Value, value protoreflect.Value, fd protoreflect.FieldDescriptor) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice && v.Type() != rawJSON {
		if !fd.IsList() {
			wrapper := value.Message()
			value = wrapper.Get(wrapper.Descriptor().Fields().ByName("values"))
		}
		list := value.List()
		v.Set(reflect.MakeSlice(v.Type(), list.Len(), list.Len()))
		for i := range list.Len() {
			if err := readValue(v.Index(i), list.Get(i)); err != nil {
				return within("["+strconv.Itoa(i)+"]", err)
			}
		}
		return nil
	}
	return readValue(v, value)
}

func readValue(v reflect.Value, value protoreflect.Value) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(value.String())
	case v.Kind() == reflect.Bool:
		v.SetBool(value.Bool())
	case v.CanInt():
		v.SetInt(value.Int())
	case v.CanFloat():
		v.SetFloat(value.Float())
	case v.Type() == rawJSON:
		v.SetBytes([]byte(value.String()))
	case v.Addr().Type().Implements(textUnmarshaler):
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(value.String()))
	case v.Kind() == reflect.Struct:
		return readStruct(v, value.Message())
	default:
		return fmt.Errorf("translate: %s has no form on the wire", v.Type())
	}
	return nil
}

// absent reports whether a value is the zero one bit by bit: minus zero, which
// JSON shows, is not.
func absent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Float64:
		return math.Float64bits(v.Float()) == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !absent(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}

func counterpart(m protoreflect.Message, v reflect.Value, name string) (protoreflect.FieldDescriptor, error) {
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if fd == nil {
		return nil, fmt.Errorf("translate: %s has no field for %s of %s", m.Descriptor().FullName(), name, v.Type())
	}
	return fd, nil
}

// jsonName returns a field's JSON name, and whether JSON leaves it out when it
// is empty.
func jsonName(f reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, options != ""
}

// within puts a step in front of the field that a FieldError names.
func within(step string, err error) error {
	var refused *memory.FieldError
	if !errors.As(err, &refused) {
		return err
	}
	switch {
	case refused.Field == "":
		refused.Field = step
	case strings.HasPrefix(refused.Field, "["):
		refused.Field = step + refused.Field
	default:
		refused.Field = step + "." + refused.Field
	}
	return err
}
