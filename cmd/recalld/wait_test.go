package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"recalld/front/api"
)

// A command waits while another process has the folder, and goes on when it is
// free.
func TestCommandWaitsForTheFolder(t *testing.T) {
	data := t.TempDir()
	lock, err := api.LockFolder(data)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		code int
		text string
	}
	ended := make(chan result, 1)
	go func() {
		var out bytes.Buffer
		code := run([]string{"store", "--data", data, "--agent", "mia", "said while the folder was taken"}, strings.NewReader(""), &out, &out)
		ended <- result{code, out.String()}
	}()
	select {
	case r := <-ended:
		t.Fatalf("it did not wait: exit code %d, %s", r.code, r.text)
	case <-time.After(200 * time.Millisecond):
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if r := <-ended; r.code != exitOK || r.text != "stored mem:1\n" {
		t.Fatalf("exit code %d, %s", r.code, r.text)
	}
}
