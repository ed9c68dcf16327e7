package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTime is how long calls in flight may still take when the input has ended.
const drainTime = 10 * time.Second

// MaxFrame is the longest frame that is read, in bytes without its newline.
const MaxFrame = 16 << 20

// frames is a transport of one JSON-RPC message a line. Unlike the SDK's own it
// outlives a line that is no message: that line is answered with an error. When
// the input ends, the calls that came before are still answered.
type frames struct {
	in  io.Reader
	out io.Writer
}

// Connect implements [sdk.Transport].
//
// The goroutine that reads ends with the input. A read of a terminal or an
// inherited pipe cannot be interrupted, so when the session ends first it stays
// until the process does.
func (f frames) Connect(context.Context) (sdk.Connection, error) {
	c := &connection{in: f.in, out: f.out, incoming: make(chan frame), calls: map[jsonrpc.ID]struct{}{}, answered: make(chan struct{}, 1), closed: make(chan struct{})}
	go c.readLines()
	return c, nil
}

// frame is one line, or what is wrong with it.
type frame struct {
	text []byte
	err  error
}

var errFrameTooLong = fmt.Errorf("frame is longer than %d bytes", MaxFrame)

type connection struct {
	in       io.Reader
	out      io.Writer
	writing  sync.Mutex
	incoming chan frame
	mu       sync.Mutex
	calls    map[jsonrpc.ID]struct{} // read and not yet answered
	answered chan struct{}           // holds a token after an answer
	closed   chan struct{}
	close    sync.Once
}

// SessionID implements [sdk.Connection]; a pipe is one session.
func (c *connection) SessionID() string { return "" }

// Close implements [sdk.Connection].
func (c *connection) Close() error {
	var err error
	c.close.Do(func() {
		close(c.closed)
		if in, ok := c.in.(io.Closer); ok {
			err = in.Close()
		}
	})
	return err
}

// Read implements [sdk.Connection]. It answers frames that are no message and
// returns the next one that is.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case f, open := <-c.incoming:
			if !open {
				c.drain(ctx)
				return nil, io.EOF
			}
			message, refusal := f.decode()
			if refusal == nil {
				if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
					c.asked(request.ID)
				}
				return message, nil
			}
			if err := c.write(refusal); err != nil {
				return nil, err
			}
		}
	}
}

// Write implements [sdk.Connection].
func (c *connection) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	if err := c.write(text); err != nil {
		return err
	}
	if response, ok := message.(*jsonrpc.Response); ok {
		c.settled(response.ID)
	}
	return nil
}

func (c *connection) asked(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = struct{}{}
}

func (c *connection) settled(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

func (c *connection) inFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// drain waits until every call is answered, the session ends, or [drainTime] is
// over.
func (c *connection) drain(ctx context.Context) {
	over := time.NewTimer(drainTime)
	defer over.Stop()
	for c.inFlight() > 0 {
		select {
		case <-c.answered:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		case <-c.closed:
			return
		}
	}
}

func (c *connection) write(text []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(text, '\n'))
	return err
}

func (c *connection) readLines() {
	defer close(c.incoming)
	in := bufio.NewReaderSize(c.in, 64<<10)
	for {
		text, err := readLine(in)
		if err != nil && !errors.Is(err, errFrameTooLong) {
			return
		}
		if err == nil && len(text) == 0 {
			continue
		}
		select {
		case c.incoming <- frame{text, err}:
		case <-c.closed:
			return
		}
	}
}

// readLine returns the next line without surrounding space, in memory of its
// own. A line over [MaxFrame] is passed over without being held.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxFrame+1; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !tooLong):
			return nil, err
		case tooLong:
			return nil, errFrameTooLong
		}
		return bytes.TrimSpace(line), nil
	}
}

// decode returns the frame's message, or the frame that refuses it.
func (f frame) decode() (message jsonrpc.Message, refusal []byte) {
	switch {
	case f.err != nil:
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest, f.err.Error())
	case !json.Valid(f.text):
		return nil, refuse(nil, jsonrpc.CodeParseError, "frame is not JSON; send one message a line")
	case f.text[0] != '{':
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest, "frame is not a message object; batches are not supported, send one message a line")
	}
	message, err := jsonrpc.DecodeMessage(f.text)
	if err != nil {
		return nil, refuse(f.id(), jsonrpc.CodeInvalidRequest, err.Error())
	}
	return message, nil
}

// id returns the frame's id when it is one that JSON-RPC allows.
func (f frame) id() json.RawMessage {
	var probe struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(f.text, &probe); err != nil || len(probe.ID) == 0 {
		return nil
	}
	if first := probe.ID[0]; first == '"' || first == '-' || first >= '0' && first <= '9' {
		return probe.ID
	}
	return nil
}

func refuse(id json.RawMessage, code int64, text string) []byte {
	frame, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: text}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	return frame
}
