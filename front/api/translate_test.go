package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"recalld/coordinator"
	"recalld/memory"
	pb "recalld/proto/recalld/v1"
)

// values draws any value of a type that can stand in the API: text in any
// script, numbers to their limits, lists and pointers present or not. NaN and
// infinities are not JSON and never stand in an answer.
func values[T any]() *rapid.Generator[T] {
	return rapid.MakeCustom[T](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[float64](): rapid.Float64().AsAny(),
		reflect.TypeFor[json.RawMessage](): rapid.SampledFrom([]json.RawMessage{
			nil, json.RawMessage(`{}`), json.RawMessage(`{"k":[1,2.50,"値"],"k2":null}`), json.RawMessage(`{"big":12345678901234567890}`),
		}).AsAny(),
		reflect.TypeFor[memory.Time](): rapid.Custom(func(t *rapid.T) memory.Time {
			return memory.Time{
				Milli:  rapid.Int64Range(-30_000_000_000_000, 200_000_000_000_000).Draw(t, "milli"),
				Offset: rapid.Int16Range(-14*60, 14*60).Draw(t, "offset"),
				Known:  true,
			}
		}).AsAny(),
	}})
}

// travel sends a value over the wire's bytes and back.
func travel[T any](value T, m proto.Message) (T, error) {
	var back T
	if err := toMessage(m, &value); err != nil {
		return back, err
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		return back, err
	}
	received := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(wire, received); err != nil {
		return back, err
	}
	return back, fromMessage(&back, received)
}

// RR-440, RR-441, DECISIONS 3: every value of every message survives the way,
// an absent project and channel included; what JSON shows is the same.
func TestEveryValueTravels(t *testing.T) {
	t.Run("StoreRequest", travels[coordinator.StoreRequest](&pb.StoreRequest{}))
	t.Run("StoreResponse", travels[coordinator.StoreResponse](&pb.StoreResponse{}))
	t.Run("RecallRequest", travels[coordinator.RecallRequest](&pb.RecallRequest{}))
	t.Run("RecallResponse", travels[coordinator.RecallResponse](&pb.RecallResponse{}))
	t.Run("ContentsRequest", travels[coordinator.ContentsRequest](&pb.ContentsRequest{}))
	t.Run("ContentsResponse", travels[coordinator.ContentsResponse](&pb.ContentsResponse{}))
	t.Run("ListRequest", travels[coordinator.ListRequest](&pb.ListRequest{}))
	t.Run("ListResponse", travels[coordinator.ListResponse](&pb.ListResponse{}))
	t.Run("UpdateRequest", travels[coordinator.UpdateRequest](&pb.UpdateRequest{}))
	t.Run("Row", travels[coordinator.Row](&pb.Row{}))
	t.Run("DeleteRequest", travels[coordinator.DeleteRequest](&pb.DeleteRequest{}))
	t.Run("DeleteResponse", travels[coordinator.DeleteResponse](&pb.DeleteResponse{}))
	t.Run("LockRequest", travels[coordinator.LockRequest](&pb.LockRequest{}))
	t.Run("LockResponse", travels[coordinator.LockResponse](&pb.LockResponse{}))
	t.Run("ProfileRequest", travels[coordinator.ProfileRequest](&pb.ProfileRequest{}))
	t.Run("Profile", travels[memory.Profile](&pb.Profile{}))
	t.Run("ProfilesRequest", travels[profilesRequest](&pb.ProfilesRequest{}))
	t.Run("ProfilesResponse", travels[profilesResponse](&pb.ProfilesResponse{}))
	t.Run("CalibrateRequest", travels[coordinator.CalibrateRequest](&pb.CalibrateRequest{}))
	t.Run("CalibrateResponse", travels[coordinator.CalibrateResponse](&pb.CalibrateResponse{}))
	t.Run("CalibrationsRequest", travels[agentRequest](&pb.CalibrationsRequest{}))
	t.Run("CalibrationsResponse", travels[calibrationsResponse](&pb.CalibrationsResponse{}))
	t.Run("MergeRequest", travels[coordinator.MergeRequest](&pb.MergeRequest{}))
	t.Run("MergeResponse", travels[coordinator.MergeResponse](&pb.MergeResponse{}))
	t.Run("PauseRequest", travels[coordinator.PauseRequest](&pb.PauseRequest{}))
	t.Run("PausedRequest", travels[agentRequest](&pb.PausedRequest{}))
	t.Run("PauseState", travels[coordinator.PauseState](&pb.PauseState{}))
	t.Run("DeepCheckRequest", travels[coordinator.DeepCheckRequest](&pb.DeepCheckRequest{}))
	t.Run("DeepCheckResponse", travels[coordinator.DeepCheckResponse](&pb.DeepCheckResponse{}))
	t.Run("OperatingContextRequest", travels[sectionRequest](&pb.OperatingContextRequest{}))
	t.Run("OperatingContext", travels[coordinator.OperatingContext](&pb.OperatingContextResponse{}))
	t.Run("SettingsResponse", travels[settingsResponse](&pb.SettingsResponse{}))
	t.Run("SetSettingRequest", travels[setSettingRequest](&pb.SetSettingRequest{}))
	t.Run("Setting", travels[coordinator.Setting](&pb.Setting{}))
	t.Run("ModelsResponse", travels[modelsResponse](&pb.ModelsResponse{}))
	t.Run("ModelRequest", travels[coordinator.ModelRequest](&pb.ModelRequest{}))
	t.Run("ModelState", travels[coordinator.ModelState](&pb.ModelState{}))
	t.Run("Status", travels[coordinator.Status](&pb.StatusResponse{}))
	t.Run("DoctorRequest", travels[coordinator.DoctorRequest](&pb.DoctorRequest{}))
	t.Run("DoctorResponse", travels[coordinator.DoctorResponse](&pb.DoctorResponse{}))
	t.Run("IndexStateRequest", travels[coordinator.IndexStateRequest](&pb.IndexStateRequest{}))
	t.Run("ApproximateRecall", travels[coordinator.ApproximateRecall](&pb.ApproximateRecall{}))
	t.Run("IndexState", travels[coordinator.IndexState](&pb.IndexState{}))
	t.Run("WordState", travels[coordinator.WordState](&pb.WordState{}))
	t.Run("CodeState", travels[coordinator.CodeState](&pb.CodeState{}))
	t.Run("RebuildState", travels[coordinator.RebuildState](&pb.RebuildState{}))
	t.Run("ScannerState", travels[coordinator.ScannerState](&pb.ScannerState{}))
	t.Run("IndexRequest", travels[coordinator.IndexRequest](&pb.IndexRequest{}))
	t.Run("IndexReport", travels[coordinator.IndexReport](&pb.IndexReport{}))
	t.Run("ExportRequest", travels[coordinator.ExportRequest](&pb.ExportRequest{}))
}

func travels[T any](m proto.Message) func(*testing.T) {
	return func(t *testing.T) {
		typ := reflect.TypeFor[T]()
		if got, want := m.ProtoReflect().Descriptor().Fields().Len(), typ.NumField(); got != want {
			t.Errorf("%s has %d fields, %s has %d", m.ProtoReflect().Descriptor().Name(), got, typ, want)
		}
		rapid.Check(t, func(t *rapid.T) {
			value := values[T]().Draw(t, "value")
			tidy(reflect.ValueOf(&value).Elem())
			back, err := travel(value, m.ProtoReflect().New().Interface())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(value, back) {
				t.Fatalf("sent %#v\n got %#v", value, back)
			}
			sent, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(back)
			if err != nil || !bytes.Equal(sent, got) {
				t.Fatalf("sent %s\n got %s (%v)", sent, got, err)
			}
		})
	}
}

// tidy makes nil what JSON shows as nothing and empty what it shows as []: the
// one difference that does not travel. Only an update's keywords tell nil from
// empty, and they do travel.
func tidy(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			tidy(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			tidy(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[memory.Time]() {
			return
		}
		for i := range v.NumField() {
			field := v.Field(i)
			if field.Kind() == reflect.Slice && field.Len() == 0 && v.Type() != reflect.TypeFor[coordinator.UpdateRequest]() {
				if _, optional := jsonName(v.Type().Field(i)); optional {
					field.SetZero()
				} else {
					field.Set(reflect.MakeSlice(field.Type(), 0, 0))
				}
			}
			tidy(field)
		}
	}
}

// A list that JSON always shows is [] at the client even when the service gave
// nil.
func TestRequiredListsAreNeverNull(t *testing.T) {
	back, err := travel(coordinator.RecallResponse{Explain: &coordinator.Explanation{}}, &pb.RecallResponse{})
	if err != nil || back.Rows == nil || back.Explain.Arms == nil {
		t.Errorf("got %+v, %v", back, err)
	}
}

// An update's keywords: absent leaves them, empty clears them.
func TestAbsentKeywordsAreNotEmptyOnes(t *testing.T) {
	for _, keywords := range [][]string{nil, {}, {"会議", ""}} {
		back, err := travel(coordinator.UpdateRequest{Ref: "ep:1", Keywords: keywords}, &pb.UpdateRequest{})
		if err != nil || !reflect.DeepEqual(back.Keywords, keywords) {
			t.Errorf("sent %#v, got %#v, %v", keywords, back.Keywords, err)
		}
	}
}

// Text that is not UTF-8 cannot travel; the refusal names the field.
func TestInvalidTextIsRefusedByName(t *testing.T) {
	bad := "caf\xe9"
	tests := []struct {
		request any
		m       proto.Message
		field   string
	}{
		{coordinator.RecallRequest{Query: bad}, &pb.RecallRequest{}, "query"},
		{coordinator.RecallRequest{Project: &bad}, &pb.RecallRequest{}, "project"},
		{coordinator.RecallRequest{Exclude: []string{"a", bad}}, &pb.RecallRequest{}, "exclude_contents[1]"},
		{coordinator.StoreRequest{Items: []coordinator.StoreItem{{}, {Content: bad}}}, &pb.StoreRequest{}, "items[1].content"},
		{coordinator.StoreRequest{Items: []coordinator.StoreItem{{Source: memory.Source{Name: bad}}}}, &pb.StoreRequest{}, "items[0].source.name"},
		{coordinator.StoreRequest{Items: []coordinator.StoreItem{{Metadata: json.RawMessage(bad)}}}, &pb.StoreRequest{}, "items[0].metadata"},
		{coordinator.UpdateRequest{Keywords: []string{bad}}, &pb.UpdateRequest{}, "keywords[0]"},
	}
	for _, test := range tests {
		var refused *memory.FieldError
		if err := toMessage(test.m, test.request); !errors.As(err, &refused) || refused.Field != test.field {
			t.Errorf("%T: got %v, want %s refused", test.request, err, test.field)
		}
	}
}

// A time that the wire names badly is refused, not taken for another.
func TestBadTimeFromTheWireIsAnError(t *testing.T) {
	var profile memory.Profile
	if err := fromMessage(&profile, &pb.Profile{Updated: "yesterday"}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("got %v, %v", profile, err)
	}
	if err := fromMessage(&profile, &pb.Profile{Updated: "2026-11-30T09:00:00+09:00"}); err != nil || !profile.Updated.Std().Equal(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", profile, err)
	}
}

func BenchmarkTranslateRecallResponse(b *testing.B) {
	score, half, prior := 0.5, 0.5, 0.9
	response := coordinator.RecallResponse{Order: "best_first"}
	for range 10 {
		response.Rows = append(response.Rows, coordinator.Row{
			Ref: "mem:12", Content: "The pump stopped at 09:12.", Score: &score, Time: "2026-11-30T09:00:00+09:00", Project: "p",
			Source:      memory.Source{ID: "s", Name: "Anna"},
			MatchReason: &coordinator.MatchReason{Signal: "rsf", Score: &half, Prior: &prior, Arms: []coordinator.ArmVote{{Arm: "vector", Rank: 1, Score: 0.4}}},
		})
	}
	for b.Loop() {
		if _, err := travel(response, &pb.RecallResponse{}); err != nil {
			b.Fatal(err)
		}
	}
}
