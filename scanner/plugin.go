package scanner

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// MaxMessage is the most bytes of a message in either direction.
const MaxMessage = 64 << 20

// protocol is the version of the contract; the handshake demands it of both
// ends.
const protocol = 2

// window is how many bytes of a message, and of all, may be on their way without
// an acknowledgement. Where gRPC is told one, it does not measure the connection,
// which would double what is sent for a small call.
const window = 4 << 20

// DialOptions are those of the client's end.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
	}
}

func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
	}
}

// PluginName is under which name the process offers its service.
const PluginName = "scanner"

// Handshake is what both ends must agree on before they speak. The cookie is no
// secret: it tells a person who starts the command by hand what it is.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: protocol, MagicCookieKey: "RECALLD_SCANNER", MagicCookieValue: "started-by-its-server"}
}

// Plugin connects the service with go-plugin. Service is nil on the client's end.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Service *Server
}

// GRPCServer implements [plugin.GRPCPlugin].
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, to *grpc.Server) error {
	if p.Service == nil {
		return errors.New("this end has no server")
	}
	scannerv1.RegisterScannerServer(to, p.Service)
	scannerv1.RegisterWordsServer(to, NewWords(p.Service))
	return nil
}

// Calls are the services of one process.
type Calls struct {
	scannerv1.ScannerClient
	scannerv1.WordsClient
}

// GRPCClient implements [plugin.GRPCPlugin] and returns [Calls].
func (p *Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return Calls{scannerv1.NewScannerClient(c), scannerv1.NewWordsClient(c)}, nil
}

// Serve is the whole life of a scanner process: until the parent says so or is
// gone. In a process that was not started by a client it says so and exits with
// code 1.
func Serve(o Options) {
	go watchParent()
	server := NewServer(o)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Warn}), // a server shows what is written there
		Plugins:         plugin.PluginSet{PluginName: &Plugin{Service: server}},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, serverOptions()...)...)
		},
	})
	server.Close()
}
