package guard

import (
	"context"
	"encoding/json"
	"slices"

	"recalld/coordinator"
	"recalld/memory"
)

// Service returns the service as the client of each call's context may use it
// ([WithClient]); a call without a client is denied. Files that a call names are
// confined to the folders; nil means that no call may name one.
//
// It embeds nothing: a method that is new in the interface does not build until
// it has a rule here.
func Service(inner coordinator.Service, folders *Folders) coordinator.Service {
	return &service{inner: inner, folders: folders, rules: rules()}
}

type service struct {
	inner   coordinator.Service
	folders *Folders
	rules   map[string]rule
}

func (s *service) allow(ctx context.Context, method, agent string) error {
	return allow(ctx, s.rules, method, agent)
}

// Allowed refuses, with a *[access.Denial], what a guarded service would refuse the
// context's client, for a front that does something else before the call, such as
// opening a file. Another service refuses nothing.
func Allowed(ctx context.Context, of coordinator.Service, method, agent string) error {
	if s, ok := of.(*service); ok {
		return s.allow(ctx, method, agent)
	}
	return nil
}

// guarded runs a call when it is allowed.
func guarded[Q, A any](ctx context.Context, s *service, method, agent string, r Q, call func(context.Context, Q) (A, error)) (A, error) {
	if err := s.allow(ctx, method, agent); err != nil {
		var none A
		return none, err
	}
	return call(ctx, r)
}

// Store needs the server as well where items bring numbers or vectors along.
func (s *service) Store(ctx context.Context, r coordinator.StoreRequest) (coordinator.StoreResponse, error) {
	if slices.ContainsFunc(r.Items, func(i coordinator.StoreItem) bool { return i.Kept != nil }) {
		if err := s.allow(ctx, storeKept, ""); err != nil {
			return coordinator.StoreResponse{}, err
		}
	}
	return guarded(ctx, s, "Store", r.Agent, r, s.inner.Store)
}

func (s *service) Recall(ctx context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	return guarded(ctx, s, "Recall", r.Agent, r, s.inner.Recall)
}

func (s *service) GetContents(ctx context.Context, r coordinator.ContentsRequest) (*coordinator.ContentsResponse, error) {
	return guarded(ctx, s, "GetContents", r.Agent, r, s.inner.GetContents)
}

func (s *service) List(ctx context.Context, r coordinator.ListRequest) (*coordinator.ListResponse, error) {
	return guarded(ctx, s, "List", r.Agent, r, s.inner.List)
}

func (s *service) Update(ctx context.Context, r coordinator.UpdateRequest) (*coordinator.Row, error) {
	return guarded(ctx, s, "Update", r.Agent, r, s.inner.Update)
}

func (s *service) Delete(ctx context.Context, r coordinator.DeleteRequest) (*coordinator.DeleteResponse, error) {
	return guarded(ctx, s, "Delete", r.Agent, r, s.inner.Delete)
}

func (s *service) Lock(ctx context.Context, r coordinator.LockRequest) (*coordinator.LockResponse, error) {
	return guarded(ctx, s, "Lock", r.Agent, r, s.inner.Lock)
}

func (s *service) PutProfile(ctx context.Context, r coordinator.ProfileRequest) (*memory.Profile, error) {
	return guarded(ctx, s, "PutProfile", r.Agent, r, s.inner.PutProfile)
}

func (s *service) Profiles(ctx context.Context, agent string, userID *string) ([]memory.Profile, error) {
	if err := s.allow(ctx, "Profiles", agent); err != nil {
		return nil, err
	}
	return s.inner.Profiles(ctx, agent, userID)
}

// Merge needs the target's memory and the source's. Both refusals say which.
func (s *service) Merge(ctx context.Context, r coordinator.MergeRequest) (*coordinator.MergeResponse, error) {
	from := mergeMoved
	if r.Mode == "" || r.Mode == "copy" {
		from = mergeSource
	}
	if err := s.allow(ctx, from, r.Source); err != nil {
		return nil, err
	}
	return guarded(ctx, s, "Merge", r.Target, r, s.inner.Merge)
}

func (s *service) Pause(ctx context.Context, r coordinator.PauseRequest) (*coordinator.PauseState, error) {
	return guarded(ctx, s, "Pause", r.Agent, r, s.inner.Pause)
}

func (s *service) Paused(ctx context.Context, agent string) (*coordinator.PauseState, error) {
	return guarded(ctx, s, "Paused", agent, agent, s.inner.Paused)
}

func (s *service) Calibrate(ctx context.Context, r coordinator.CalibrateRequest) (*coordinator.CalibrateResponse, error) {
	return guarded(ctx, s, "Calibrate", r.Agent, r, s.inner.Calibrate)
}

func (s *service) Calibrations(ctx context.Context, agent string) ([]coordinator.Calibration, error) {
	return guarded(ctx, s, "Calibrations", agent, agent, s.inner.Calibrations)
}

func (s *service) DeepCheck(ctx context.Context, r coordinator.DeepCheckRequest) (*coordinator.DeepCheckResponse, error) {
	return guarded(ctx, s, "DeepCheck", r.Agent, r, s.inner.DeepCheck)
}

// OperatingContext is for every client: the operator wrote it for them.
func (s *service) OperatingContext(ctx context.Context, section string) (*coordinator.OperatingContext, error) {
	return guarded(ctx, s, "OperatingContext", "", section, s.inner.OperatingContext)
}

func (s *service) Settings(ctx context.Context) ([]coordinator.Setting, error) {
	if err := s.allow(ctx, "Settings", ""); err != nil {
		return nil, err
	}
	return s.inner.Settings(ctx)
}

func (s *service) SetSetting(ctx context.Context, name, value string) (coordinator.Setting, error) {
	if err := s.allow(ctx, "SetSetting", ""); err != nil {
		return coordinator.Setting{}, err
	}
	return s.inner.SetSetting(ctx, name, value)
}

func (s *service) Models(ctx context.Context) ([]coordinator.ModelState, error) {
	if err := s.allow(ctx, "Models", ""); err != nil {
		return nil, err
	}
	return s.inner.Models(ctx)
}

func (s *service) ChangeModel(ctx context.Context, r coordinator.ModelRequest) (*coordinator.ModelState, error) {
	return guarded(ctx, s, "ChangeModel", "", r, s.inner.ChangeModel)
}

func (s *service) Status(ctx context.Context) (*coordinator.Status, error) {
	if err := s.allow(ctx, "Status", ""); err != nil {
		return nil, err
	}
	return s.inner.Status(ctx)
}

func (s *service) Doctor(ctx context.Context, r coordinator.DoctorRequest) (*coordinator.DoctorResponse, error) {
	method := "Doctor"
	if r.Fix {
		method = doctorFix
	}
	return guarded(ctx, s, method, "", r, s.inner.Doctor)
}

func (s *service) Index(ctx context.Context, r coordinator.IndexStateRequest) (*coordinator.IndexState, error) {
	return guarded(ctx, s, "Index", "", r, s.inner.Index)
}

func (s *service) ChangeIndex(ctx context.Context, r coordinator.IndexRequest, progress coordinator.Progress) (*coordinator.IndexReport, error) {
	if err := s.allow(ctx, "ChangeIndex", ""); err != nil {
		return nil, err
	}
	return s.inner.ChangeIndex(ctx, r, progress)
}

// Backup writes inside the folders and nowhere else.
func (s *service) Backup(ctx context.Context, path string, progress coordinator.Progress) error {
	if err := s.allow(ctx, "Backup", ""); err != nil {
		return err
	}
	confined, err := s.folders.Target(path)
	if err != nil {
		return err
	}
	return s.inner.Backup(ctx, confined, progress)
}

func (s *service) Vacuum(ctx context.Context, progress coordinator.Progress) error {
	if err := s.allow(ctx, "Vacuum", ""); err != nil {
		return err
	}
	return s.inner.Vacuum(ctx, progress)
}

func (s *service) Export(ctx context.Context, r coordinator.ExportRequest, each func(line json.RawMessage) error) error {
	if err := s.allow(ctx, "Export", r.Agent); err != nil {
		return err
	}
	return s.inner.Export(ctx, r, each)
}
