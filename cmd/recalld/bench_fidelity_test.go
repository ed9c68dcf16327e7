package main

import "testing"

func TestBenchFidelityScript(t *testing.T) { script(t, "bench_fidelity") }
