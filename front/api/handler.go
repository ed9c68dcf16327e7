package api

import (
	"context"
	"encoding/json"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"recalld/coordinator"
	pb "recalld/proto/recalld/v1"
)

// exportChunk is how many bytes of lines travel in one message of an export.
const exportChunk = 64 << 10

// handler answers the contract's calls with a service's answers.
type handler struct {
	service coordinator.Service
}

// answer runs one call: the message becomes the request, the response becomes
// the message out.
func answer[Q, A any, M proto.Message](ctx context.Context, in proto.Message, out M, call func(context.Context, Q) (A, error)) (M, error) {
	var none M
	var request Q
	if err := fromMessage(&request, in); err != nil {
		return none, refuse(err)
	}
	response, err := call(ctx, request)
	if err != nil {
		return none, refuse(err)
	}
	if err := toMessage(out, response); err != nil {
		return none, connect.NewError(connect.CodeInternal, err)
	}
	return out, nil
}

func (h handler) Store(ctx context.Context, m *pb.StoreRequest) (*pb.StoreResponse, error) {
	return answer(ctx, m, &pb.StoreResponse{}, h.service.Store)
}

func (h handler) Recall(ctx context.Context, m *pb.RecallRequest) (*pb.RecallResponse, error) {
	return answer(ctx, m, &pb.RecallResponse{}, h.service.Recall)
}

func (h handler) GetContents(ctx context.Context, m *pb.ContentsRequest) (*pb.ContentsResponse, error) {
	return answer(ctx, m, &pb.ContentsResponse{}, h.service.GetContents)
}

func (h handler) List(ctx context.Context, m *pb.ListRequest) (*pb.ListResponse, error) {
	return answer(ctx, m, &pb.ListResponse{}, h.service.List)
}

func (h handler) Update(ctx context.Context, m *pb.UpdateRequest) (*pb.Row, error) {
	return answer(ctx, m, &pb.Row{}, h.service.Update)
}

func (h handler) Delete(ctx context.Context, m *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	return answer(ctx, m, &pb.DeleteResponse{}, h.service.Delete)
}

func (h handler) Lock(ctx context.Context, m *pb.LockRequest) (*pb.LockResponse, error) {
	return answer(ctx, m, &pb.LockResponse{}, h.service.Lock)
}

func (h handler) PutProfile(ctx context.Context, m *pb.ProfileRequest) (*pb.Profile, error) {
	return answer(ctx, m, &pb.Profile{}, h.service.PutProfile)
}

func (h handler) Profiles(ctx context.Context, m *pb.ProfilesRequest) (*pb.ProfilesResponse, error) {
	return answer(ctx, m, &pb.ProfilesResponse{}, func(ctx context.Context, q profilesRequest) (profilesResponse, error) {
		profiles, err := h.service.Profiles(ctx, q.Agent, q.UserID)
		return profilesResponse{profiles}, err
	})
}

func (h handler) Calibrate(ctx context.Context, m *pb.CalibrateRequest) (*pb.CalibrateResponse, error) {
	return answer(ctx, m, &pb.CalibrateResponse{}, h.service.Calibrate)
}

func (h handler) Calibrations(ctx context.Context, m *pb.CalibrationsRequest) (*pb.CalibrationsResponse, error) {
	return answer(ctx, m, &pb.CalibrationsResponse{}, func(ctx context.Context, q agentRequest) (calibrationsResponse, error) {
		calibrations, err := h.service.Calibrations(ctx, q.Agent)
		return calibrationsResponse{calibrations}, err
	})
}

func (h handler) Merge(ctx context.Context, m *pb.MergeRequest) (*pb.MergeResponse, error) {
	return answer(ctx, m, &pb.MergeResponse{}, h.service.Merge)
}

func (h handler) Pause(ctx context.Context, m *pb.PauseRequest) (*pb.PauseState, error) {
	return answer(ctx, m, &pb.PauseState{}, h.service.Pause)
}

func (h handler) Paused(ctx context.Context, m *pb.PausedRequest) (*pb.PauseState, error) {
	return answer(ctx, m, &pb.PauseState{}, func(ctx context.Context, q agentRequest) (*coordinator.PauseState, error) {
		return h.service.Paused(ctx, q.Agent)
	})
}

func (h handler) DeepCheck(ctx context.Context, m *pb.DeepCheckRequest) (*pb.DeepCheckResponse, error) {
	return answer(ctx, m, &pb.DeepCheckResponse{}, h.service.DeepCheck)
}

func (h handler) OperatingContext(ctx context.Context, m *pb.OperatingContextRequest) (*pb.OperatingContextResponse, error) {
	return answer(ctx, m, &pb.OperatingContextResponse{}, func(ctx context.Context, q sectionRequest) (*coordinator.OperatingContext, error) {
		return h.service.OperatingContext(ctx, q.Section)
	})
}

func (h handler) Settings(ctx context.Context, m *pb.SettingsRequest) (*pb.SettingsResponse, error) {
	return answer(ctx, m, &pb.SettingsResponse{}, func(ctx context.Context, _ struct{}) (settingsResponse, error) {
		settings, err := h.service.Settings(ctx)
		return settingsResponse{settings}, err
	})
}

func (h handler) SetSetting(ctx context.Context, m *pb.SetSettingRequest) (*pb.Setting, error) {
	return answer(ctx, m, &pb.Setting{}, func(ctx context.Context, q setSettingRequest) (coordinator.Setting, error) {
		return h.service.SetSetting(ctx, q.Name, q.Value)
	})
}

func (h handler) Models(ctx context.Context, m *pb.ModelsRequest) (*pb.ModelsResponse, error) {
	return answer(ctx, m, &pb.ModelsResponse{}, func(ctx context.Context, _ struct{}) (modelsResponse, error) {
		models, err := h.service.Models(ctx)
		return modelsResponse{models}, err
	})
}

func (h handler) ChangeModel(ctx context.Context, m *pb.ModelRequest) (*pb.ModelState, error) {
	return answer(ctx, m, &pb.ModelState{}, h.service.ChangeModel)
}

func (h handler) Status(ctx context.Context, m *pb.StatusRequest) (*pb.StatusResponse, error) {
	return answer(ctx, m, &pb.StatusResponse{}, func(ctx context.Context, _ struct{}) (*coordinator.Status, error) {
		return h.service.Status(ctx)
	})
}

func (h handler) Doctor(ctx context.Context, m *pb.DoctorRequest) (*pb.DoctorResponse, error) {
	return answer(ctx, m, &pb.DoctorResponse{}, h.service.Doctor)
}

func (h handler) Backup(ctx context.Context, m *pb.BackupRequest, stream *connect.ServerStream[pb.Progress]) error {
	return sendProgress(ctx, stream, func(ctx context.Context, progress coordinator.Progress) error {
		return h.service.Backup(ctx, m.GetPath(), progress)
	})
}

func (h handler) Vacuum(ctx context.Context, _ *pb.VacuumRequest, stream *connect.ServerStream[pb.Progress]) error {
	return sendProgress(ctx, stream, h.service.Vacuum)
}

func (h handler) Index(ctx context.Context, m *pb.IndexStateRequest) (*pb.IndexState, error) {
	return answer(ctx, m, &pb.IndexState{}, h.service.Index)
}

func (h handler) ChangeIndex(ctx context.Context, m *pb.IndexRequest, stream *connect.ServerStream[pb.IndexProgress]) error {
	var request coordinator.IndexRequest
	if err := fromMessage(&request, m); err != nil {
		return refuse(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	report, err := h.service.ChangeIndex(ctx, request, func(done, total int64) {
		if err := stream.Send(&pb.IndexProgress{Done: done, Total: total}); err != nil {
			stop()
		}
	})
	if err != nil {
		return refuse(err)
	}
	last := &pb.IndexProgress{Report: &pb.IndexReport{}}
	if err := toMessage(last.GetReport(), report); err != nil {
		return connect.NewError(connect.CodeInternal, err)
	}
	return stream.Send(last)
}

// sendProgress runs a long operation and tells the caller how far it is. A
// caller that is gone ends it.
func sendProgress(ctx context.Context, stream *connect.ServerStream[pb.Progress], operation func(context.Context, coordinator.Progress) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := operation(ctx, func(done, total int64) {
		if err := stream.Send(&pb.Progress{Done: done, Total: total}); err != nil {
			stop()
		}
	})
	if err != nil {
		return refuse(err)
	}
	return nil
}

func (h handler) Export(ctx context.Context, m *pb.ExportRequest, stream *connect.ServerStream[pb.ExportResponse]) error {
	var request coordinator.ExportRequest
	if err := fromMessage(&request, m); err != nil {
		return refuse(err)
	}
	chunk, size := &pb.ExportResponse{}, 0
	err := h.service.Export(ctx, request, func(line json.RawMessage) error {
		chunk.Lines = append(chunk.Lines, string(line))
		size += len(line)
		if size < exportChunk {
			return nil
		}
		full := chunk
		chunk, size = &pb.ExportResponse{}, 0
		return stream.Send(full)
	})
	// What came before an error is good, and goes first.
	if len(chunk.Lines) > 0 {
		if sent := stream.Send(chunk); err == nil {
			err = sent
		}
	}
	if err != nil {
		return refuse(err)
	}
	return nil
}

// Requests and responses of calls that take or give no struct of package
// coordinator.
type (
	profilesRequest struct {
		Agent  string  `json:"agent"`
		UserID *string `json:"user_id,omitempty"`
	}
	agentRequest struct {
		Agent string `json:"agent"`
	}
	sectionRequest struct {
		Section string `json:"section"`
	}
	setSettingRequest struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)
