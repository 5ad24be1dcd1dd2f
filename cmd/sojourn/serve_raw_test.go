package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// connect opens a connection past every client library.
func (s *started) connect() net.Conn {
	s.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// TestServeHeaders: long headers are refused, slow ones are cut, and others are answered meanwhile.
func TestServeHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"))
	long := s.connect()
	_, _ = fmt.Fprintf(long, "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 32<<10))
	if b, _ := io.ReadAll(long); !strings.HasPrefix(string(b), "HTTP/1.1 431 ") {
		t.Errorf("long headers: %.200q", b)
	}
	slow := s.connect()
	began := time.Now()
	go func() {
		for _, b := range "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + strings.Repeat("x", 1000) {
			if _, err := slow.Write([]byte(string(b))); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond) // that it is slow is the point
		}
	}()
	if status, body := s.send("GET", "/v1/status", "", ""); status != 200 {
		t.Errorf("another is answered %d %s", status, body)
	}
	b, _ := io.ReadAll(slow)
	if took := time.Since(began); took < 4*time.Second || took > patience || strings.HasPrefix(string(b), "HTTP/1.1 200") {
		t.Errorf("slow headers were cut after %v with %q", took, b)
	}
}

// TestServeConnections: connections that rest make room.
func TestServeConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), "--max-conns", "20")
	var resting []net.Conn
	for range 100 {
		resting = append(resting, s.connect())
	}
	if status, body := s.send("GET", "/v1/status", "", ""); status != 200 {
		t.Errorf("answered %d %s", status, body)
	}
	closed := 0
	for _, c := range resting {
		_ = c.SetReadDeadline(time.Now().Add(time.Second / 4)) // one that is open rests
		if _, err := c.Read(make([]byte, 1)); err != nil && !strings.Contains(err.Error(), "timeout") {
			closed++
			continue
		}
		break
	}
	if closed < 80 {
		t.Errorf("of 100 connections beside a limit of 20, the oldest %d are closed", closed)
	}
}
