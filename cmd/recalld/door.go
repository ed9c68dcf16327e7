package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recalld/access"
	"recalld/front/guard"
	"recalld/memory"
)

// defaultTokenEnv is the variable of the one token where no file of grants is
// named.
const defaultTokenEnv = "RECALLD_TOKEN"

// doorFlags say how clients come in over TCP, and who may.
type doorFlags struct {
	flags          *pflag.FlagSet
	address        string
	grants         string
	tokenEnv       string
	noToken        bool
	hosts, origins []string
	files          []string
	// filesAlone is set where --files has a use without --http.
	filesAlone bool
}

func (d *doorFlags) register(c *cobra.Command) {
	d.flags = c.Flags()
	d.flags.StringVar(&d.address, "http", "", "also serve over HTTP at HOST:PORT, such as 127.0.0.1:7300; needs --grants or a token")
	d.flags.StringVar(&d.grants, "grants", "", "file that names each client, its token, and what it may do with whose memory; SIGHUP reads it again")
	d.flags.StringVar(&d.tokenEnv, "token-env", defaultTokenEnv, "environment variable that holds the one token of every client, when there is no file of grants")
	d.flags.BoolVar(&d.noToken, "insecure-no-token", false, "serve HTTP on this machine's loopback address to every local program and user, without a token")
	d.flags.StringSliceVar(&d.hosts, "allow-host", nil, "further name that clients reach the server by, as behind a proxy")
	d.flags.StringSliceVar(&d.origins, "allow-origin", nil, "web page that may call the server, such as https://console.example")
	d.flags.StringSliceVar(&d.files, "files", nil, "folder that calls over HTTP may name files in, as for a backup (default: none)")
	// Both flags are there.
	_ = c.MarkFlagFilename("grants")
	_ = c.MarkFlagDirname("files")
}

// door is an open address and who may come in.
type door struct {
	listener net.Listener
	folders  *guard.Folders
	options  guard.Options
	live     *access.Live // nil: no file of grants
	log      *slog.Logger
}

// openDoor checks the flags and opens the address; nil when there is none to
// open. Nothing is listened on before everything is right.
func (a *app) openDoor(f *doorFlags, log *slog.Logger) (d *door, err error) {
	if f.address == "" {
		for _, name := range []string{"grants", "token-env", "insecure-no-token", "allow-host", "allow-origin", "files"} {
			if f.flags.Changed(name) && !(name == "files" && f.filesAlone) {
				return nil, usage("--%s says who may come in over HTTP, and --http is not given; add --http 127.0.0.1:7300 or leave it out", name)
			}
		}
		return nil, nil
	}
	address, err := net.ResolveTCPAddr("tcp", f.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, &memory.FieldError{Field: "--http", Problem: memory.Shape(f.address) + " is not an address to listen on", Limit: "HOST:PORT", Next: "write it as in 127.0.0.1:7300"})
	}
	d = &door{log: log, options: guard.Options{Hosts: f.hosts, Origins: f.origins, Log: log}}
	if err := a.whoMayEnter(f, d, address); err != nil {
		return nil, err
	}
	if _, err := guard.New(http.NotFoundHandler(), d.options); err != nil {
		return nil, err
	}
	if d.folders, err = guard.OpenFolders(a.data, f.files); err != nil {
		return nil, err
	}
	if d.listener, err = net.ListenTCP("tcp", address); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", f.address, err), d.folders.Close())
	}
	if !address.IP.IsLoopback() {
		log.Warn("HTTP is reachable from other machines and is not encrypted; put a proxy with TLS or a tunnel before it", "address", d.listener.Addr().String())
	}
	return d, nil
}

// whoMayEnter takes the grants from the file, or the one token from the
// environment, or nobody's word where that was asked for by name.
func (a *app) whoMayEnter(f *doorFlags, d *door, address *net.TCPAddr) error {
	ways := 0
	for _, name := range []string{"grants", "token-env", "insecure-no-token"} {
		if f.flags.Changed(name) {
			ways++
		}
	}
	switch {
	case ways > 1:
		return usage("--grants, --token-env and --insecure-no-token exclude one another; give one of them")
	case f.noToken:
		if !address.IP.IsLoopback() {
			return usage("--insecure-no-token is for a loopback address, and %s is none; listen on 127.0.0.1, or use --grants", memory.Shape(f.address))
		}
		d.log.Warn("NO TOKEN IS ASKED FOR: every program and every user of this machine can read, change and delete all memories over HTTP", "address", f.address)
		d.options.Anyone = access.NewClient("anyone", access.ReadWrite)
		return nil
	case f.grants != "":
		live, warnings, err := access.Open(f.grants, os.LookupEnv)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			d.log.Warn(w)
		}
		d.live, d.options.Grants = live, live.Grants
		return nil
	}
	text, ok := os.LookupEnv(f.tokenEnv)
	if !ok {
		return usage("HTTP needs a token, and the variable %s is not set; set it to the output of `openssl rand -hex 32`, or name clients in a file with --grants (--insecure-no-token serves this machine without one)", f.tokenEnv)
	}
	token, err := access.NewSecret("variable "+f.tokenEnv, text)
	if err != nil {
		return err
	}
	one := access.Single("token", token)
	d.options.Grants = func() *access.Grants { return one }
	return nil
}

// url is where clients find the server.
func (d *door) url() string { return "http://" + d.listener.Addr().String() }

// serve lets clients in to the handler until ctx ends. refused is told why
// requests were kept out. SIGHUP reads the grants again.
func (d *door) serve(ctx context.Context, h http.Handler, refused func(reason string)) error {
	o := d.options
	o.Refused = refused
	guarded, err := guard.New(h, o)
	if err != nil {
		return errors.Join(err, d.listener.Close())
	}
	if d.live != nil {
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGHUP)
		ended := make(chan struct{})
		reading, stop := context.WithCancel(ctx)
		go func() {
			defer close(ended)
			d.reload(reading, again)
		}()
		defer func() {
			signal.Stop(again)
			stop()
			<-ended
		}()
	}
	return guard.Serve(ctx, d.listener, guarded, d.log)
}

// reload reads the grants at every signal. A file with a mistake changes
// nothing.
func (d *door) reload(ctx context.Context, again <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
		warnings, err := d.live.Reload()
		if err != nil {
			d.log.Error("the grants stay as they were: the file cannot be taken", "error", err)
			continue
		}
		for _, w := range warnings {
			d.log.Warn(w)
		}
		d.log.Info("grants read again", "clients", d.live.Grants().Len())
	}
}

// Close lets go of the address, where nothing serves on it, and of the folders.
func (d *door) Close() error {
	if d == nil {
		return nil
	}
	err := d.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, d.folders.Close())
}
