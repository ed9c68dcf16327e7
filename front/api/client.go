package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"recalld/coordinator"
	"recalld/front/guard"
	"recalld/memory"
	pb "recalld/proto/recalld/v1"
	"recalld/proto/recalld/v1/recalldv1connect"
)

// maxAnswer bounds one message of an answer, in bytes: 500 rows of the largest
// usual content in any script fit.
const maxAnswer = 256 << 20

// Client is a [coordinator.Service] that a server answers. It is safe for
// concurrent use. An answer has the bytes that the service gave; an error has
// its text, its kinds and its field, or wraps [ErrNoServer] when the server is
// gone.
type Client struct {
	calls     recalldv1connect.MemoryServiceClient
	transport *http.Transport
	found     <-chan struct{} // a call has found a server; of [Follow]
	leave     func()          // ends the presence; nil: there is none
}

var _ coordinator.Service = (*Client)(nil)

// NewClient returns a client of the server that listens on the unix socket. It
// does not connect before the first call.
func NewClient(socket string) *Client {
	return newClient(transportOver(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}))
}

// transportOver speaks HTTP/1.1 over the connections that dial makes.
func transportOver(dial func(context.Context) (net.Conn, error)) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:           protocols,
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     guard.IdleTimeout / 2,
		DisableCompression:  true,
	}
}

func newClient(transport *http.Transport) *Client {
	return &Client{
		calls: recalldv1connect.NewMemoryServiceClient(
			&http.Client{Transport: transport},
			"http://recalld",
			connect.WithReadMaxBytes(maxAnswer),
			connect.WithAcceptCompression("gzip", nil, nil), // a socket is faster than gzip
		),
		transport: transport,
	}
}

// Close drops idle connections. Calls in flight are not interrupted.
func (c *Client) Close() error {
	if c.leave != nil {
		c.leave()
	}
	c.transport.CloseIdleConnections()
	return nil
}

// ask runs one call: the request becomes the message in, the message that comes
// back becomes the response.
func ask[A any, M, N proto.Message](ctx context.Context, request any, in M, call func(context.Context, M) (N, error)) (A, error) {
	var response A
	if err := toMessage(in, request); err != nil {
		return response, err
	}
	if err := checkSize(in); err != nil {
		return response, err
	}
	out, err := call(ctx, in)
	if err != nil {
		return response, restore(ctx, err)
	}
	err = fromMessage(&response, out)
	return response, err
}

// askFor is [ask] for a service that answers with a pointer.
func askFor[A any, M, N proto.Message](ctx context.Context, request any, in M, call func(context.Context, M) (N, error)) (*A, error) {
	response, err := ask[A](ctx, request, in, call)
	if err != nil {
		return nil, err
	}
	return &response, nil
}

func checkSize(m proto.Message) error {
	if size := proto.Size(m); size > MaxMessage {
		return &memory.FieldError{Field: "request", Problem: fmt.Sprintf("has %d bytes", size), Limit: fmt.Sprintf("%d bytes", MaxMessage), Next: "send less at once"}
	}
	return nil
}

// Recall implements [coordinator.Service].
func (c *Client) Recall(ctx context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	return askFor[coordinator.RecallResponse](ctx, r, &pb.RecallRequest{}, c.calls.Recall)
}

// GetContents implements [coordinator.Service].
func (c *Client) GetContents(ctx context.Context, r coordinator.ContentsRequest) (*coordinator.ContentsResponse, error) {
	return askFor[coordinator.ContentsResponse](ctx, r, &pb.ContentsRequest{}, c.calls.GetContents)
}

// List implements [coordinator.Service].
func (c *Client) List(ctx context.Context, r coordinator.ListRequest) (*coordinator.ListResponse, error) {
	return askFor[coordinator.ListResponse](ctx, r, &pb.ListRequest{}, c.calls.List)
}

// Update implements [coordinator.Service].
func (c *Client) Update(ctx context.Context, r coordinator.UpdateRequest) (*coordinator.Row, error) {
	return askFor[coordinator.Row](ctx, r, &pb.UpdateRequest{}, c.calls.Update)
}

// Delete implements [coordinator.Service].
func (c *Client) Delete(ctx context.Context, r coordinator.DeleteRequest) (*coordinator.DeleteResponse, error) {
	return askFor[coordinator.DeleteResponse](ctx, r, &pb.DeleteRequest{}, c.calls.Delete)
}

// Lock implements [coordinator.Service].
func (c *Client) Lock(ctx context.Context, r coordinator.LockRequest) (*coordinator.LockResponse, error) {
	return askFor[coordinator.LockResponse](ctx, r, &pb.LockRequest{}, c.calls.Lock)
}

// PutProfile implements [coordinator.Service].
func (c *Client) PutProfile(ctx context.Context, r coordinator.ProfileRequest) (*memory.Profile, error) {
	return askFor[memory.Profile](ctx, r, &pb.ProfileRequest{}, c.calls.PutProfile)
}

// Profiles implements [coordinator.Service].
func (c *Client) Profiles(ctx context.Context, agent string, userID *string) ([]memory.Profile, error) {
	response, err := ask[profilesResponse](ctx, profilesRequest{agent, userID}, &pb.ProfilesRequest{}, c.calls.Profiles)
	return response.Profiles, err
}

// Calibrate implements [coordinator.Service].
func (c *Client) Calibrate(ctx context.Context, r coordinator.CalibrateRequest) (*coordinator.CalibrateResponse, error) {
	return askFor[coordinator.CalibrateResponse](ctx, r, &pb.CalibrateRequest{}, c.calls.Calibrate)
}

// Calibrations implements [coordinator.Service].
func (c *Client) Calibrations(ctx context.Context, agent string) ([]coordinator.Calibration, error) {
	response, err := ask[calibrationsResponse](ctx, agentRequest{agent}, &pb.CalibrationsRequest{}, c.calls.Calibrations)
	return response.Calibrations, err
}

// Merge implements [coordinator.Service].
func (c *Client) Merge(ctx context.Context, r coordinator.MergeRequest) (*coordinator.MergeResponse, error) {
	return askFor[coordinator.MergeResponse](ctx, r, &pb.MergeRequest{}, c.calls.Merge)
}

// Pause implements [coordinator.Service].
func (c *Client) Pause(ctx context.Context, r coordinator.PauseRequest) (*coordinator.PauseState, error) {
	return askFor[coordinator.PauseState](ctx, r, &pb.PauseRequest{}, c.calls.Pause)
}

// Paused implements [coordinator.Service].
func (c *Client) Paused(ctx context.Context, agent string) (*coordinator.PauseState, error) {
	return askFor[coordinator.PauseState](ctx, agentRequest{agent}, &pb.PausedRequest{}, c.calls.Paused)
}

// DeepCheck implements [coordinator.Service].
func (c *Client) DeepCheck(ctx context.Context, r coordinator.DeepCheckRequest) (*coordinator.DeepCheckResponse, error) {
	return askFor[coordinator.DeepCheckResponse](ctx, r, &pb.DeepCheckRequest{}, c.calls.DeepCheck)
}

// OperatingContext implements [coordinator.Service].
func (c *Client) OperatingContext(ctx context.Context, section string) (*coordinator.OperatingContext, error) {
	return askFor[coordinator.OperatingContext](ctx, sectionRequest{section}, &pb.OperatingContextRequest{}, c.calls.OperatingContext)
}

// Settings implements [coordinator.Service].
func (c *Client) Settings(ctx context.Context) ([]coordinator.Setting, error) {
	response, err := ask[settingsResponse](ctx, struct{}{}, &pb.SettingsRequest{}, c.calls.Settings)
	return response.Settings, err
}

// SetSetting implements [coordinator.Service].
func (c *Client) SetSetting(ctx context.Context, name, value string) (coordinator.Setting, error) {
	return ask[coordinator.Setting](ctx, setSettingRequest{name, value}, &pb.SetSettingRequest{}, c.calls.SetSetting)
}

// Models implements [coordinator.Service].
func (c *Client) Models(ctx context.Context) ([]coordinator.ModelState, error) {
	response, err := ask[modelsResponse](ctx, struct{}{}, &pb.ModelsRequest{}, c.calls.Models)
	return response.Models, err
}

// ChangeModel implements [coordinator.Service].
func (c *Client) ChangeModel(ctx context.Context, r coordinator.ModelRequest) (*coordinator.ModelState, error) {
	return askFor[coordinator.ModelState](ctx, r, &pb.ModelRequest{}, c.calls.ChangeModel)
}

// Status implements [coordinator.Service].
func (c *Client) Status(ctx context.Context) (*coordinator.Status, error) {
	return askFor[coordinator.Status](ctx, struct{}{}, &pb.StatusRequest{}, c.calls.Status)
}

// Doctor implements [coordinator.Service].
func (c *Client) Doctor(ctx context.Context, r coordinator.DoctorRequest) (*coordinator.DoctorResponse, error) {
	return askFor[coordinator.DoctorResponse](ctx, r, &pb.DoctorRequest{}, c.calls.Doctor)
}

// Index implements [coordinator.Service].
func (c *Client) Index(ctx context.Context, r coordinator.IndexStateRequest) (*coordinator.IndexState, error) {
	return askFor[coordinator.IndexState](ctx, r, &pb.IndexStateRequest{}, c.calls.Index)
}

// ChangeIndex implements [coordinator.Service].
func (c *Client) ChangeIndex(ctx context.Context, r coordinator.IndexRequest, progress coordinator.Progress) (*coordinator.IndexReport, error) {
	in := &pb.IndexRequest{}
	if err := toMessage(in, r); err != nil {
		return nil, err
	}
	stream, err := c.calls.ChangeIndex(ctx, in)
	if err != nil {
		return nil, restore(ctx, err)
	}
	var report *coordinator.IndexReport
	for stream.Receive() {
		switch m := stream.Msg(); {
		case m.GetReport() != nil:
			report = &coordinator.IndexReport{}
			err = fromMessage(report, m.GetReport())
		case progress != nil:
			progress(m.GetDone(), m.GetTotal())
		}
	}
	if end := ended(ctx, stream); end != nil {
		return nil, end
	}
	if err == nil && report == nil {
		err = errors.New("the server ended without a report")
	}
	return report, err
}

// Backup implements [coordinator.Service]. A relative path is taken from the
// caller's working folder, not the server's.
func (c *Client) Backup(ctx context.Context, path string, progress coordinator.Progress) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("backup to %s: %w", path, err)
	}
	in := &pb.BackupRequest{}
	if err := toMessage(in, struct {
		Path string `json:"path"`
	}{absolute}); err != nil {
		return err
	}
	stream, err := c.calls.Backup(ctx, in)
	return followProgress(ctx, stream, err, progress)
}

// Vacuum implements [coordinator.Service].
func (c *Client) Vacuum(ctx context.Context, progress coordinator.Progress) error {
	stream, err := c.calls.Vacuum(ctx, &pb.VacuumRequest{})
	return followProgress(ctx, stream, err, progress)
}

func followProgress(ctx context.Context, stream *connect.ServerStreamForClient[pb.Progress], err error, progress coordinator.Progress) error {
	if err != nil {
		return restore(ctx, err)
	}
	for stream.Receive() {
		if progress != nil {
			progress(stream.Msg().GetDone(), stream.Msg().GetTotal())
		}
	}
	return ended(ctx, stream)
}

// Export implements [coordinator.Service].
func (c *Client) Export(ctx context.Context, r coordinator.ExportRequest, each func(line json.RawMessage) error) error {
	in := &pb.ExportRequest{}
	if err := toMessage(in, r); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := c.calls.Export(ctx, in)
	if err != nil {
		return restore(ctx, err)
	}
	for stream.Receive() {
		for _, line := range stream.Msg().GetLines() {
			if err := each(json.RawMessage(line)); err != nil {
				stop()
				_ = stream.Close()
				return err
			}
		}
	}
	return ended(ctx, stream)
}

func ended[M any](ctx context.Context, stream *connect.ServerStreamForClient[M]) error {
	err := restore(ctx, stream.Err())
	if closed := stream.Close(); err == nil {
		err = restore(ctx, closed)
	}
	return err
}

type (
	profilesResponse struct {
		Profiles []memory.Profile `json:"profiles"`
	}
	calibrationsResponse struct {
		Calibrations []coordinator.Calibration `json:"calibrations"`
	}
	settingsResponse struct {
		Settings []coordinator.Setting `json:"settings"`
	}
	modelsResponse struct {
		Models []coordinator.ModelState `json:"models"`
	}
)
