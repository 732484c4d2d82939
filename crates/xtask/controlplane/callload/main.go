// Command callload posts one admission review at a steady rate, as API servers do: over HTTP/1.1 connections that Go's client
// keeps, verified against a CA file that it reads again when it changes.
//
// It writes one JSON object to standard output: {"sent": 60000, "failed": 0, "errors": {"...": 1}}. A call fails if it has no
// answer within 5 s, or one whose status is not 200.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// mostErrors is the number of distinct error texts that are kept.
const mostErrors = 20

// result counts the calls.
type result struct {
	Sent   int64          `json:"sent"`
	Failed int64          `json:"failed"`
	Errors map[string]int `json:"errors"`
}

// trust is the client for the current content of the CA file.
type trust struct {
	path    string
	content []byte
	client  atomic.Pointer[http.Client]
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "callload:", err)
		os.Exit(1)
	}
}

func run() error {
	url := flag.String("url", "", "URL of the endpoint")
	ca := flag.String("ca", "", "CA file in PEM")
	review := flag.String("review", "", "file with the review")
	rate := flag.Int("rate", 1000, "calls per second")
	seconds := flag.Int("seconds", 60, "duration")
	workers := flag.Int("workers", 64, "calls at a time")
	flag.Parse()
	body, err := os.ReadFile(*review)
	if err != nil {
		return err
	}
	trusted := &trust{path: *ca}
	if err := trusted.load(); err != nil {
		return err
	}
	stop := make(chan struct{})
	go trusted.follow(stop)
	out := drive(trusted, *url, body, *workers, time.Second/time.Duration(*rate), *rate * *seconds)
	close(stop)
	return json.NewEncoder(os.Stdout).Encode(out)
}

// load makes a client for the file's content. A changed file gets new connections; open ones stay valid, as in the API server.
func (t *trust) load() error {
	content, err := os.ReadFile(t.path)
	if err != nil || bytes.Equal(content, t.content) {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return fmt.Errorf("%s: no certificate", t.path)
	}
	t.content = content
	t.client.Store(&http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: pool},
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
		},
	})
	return nil
}

func (t *trust) follow(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
			// A file that is being replaced is read again.
			_ = t.load()
		}
	}
}

// drive makes that many calls, one for each tick; a tick without a free worker waits.
func drive(trusted *trust, url string, body []byte, workers int, every time.Duration, calls int) result {
	out := result{Errors: map[string]int{}}
	var lock sync.Mutex
	ticks := make(chan struct{})
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range ticks {
				err := call(trusted.client.Load(), url, body)
				lock.Lock()
				out.Sent++
				if err != nil {
					out.Failed++
					if text := err.Error(); len(out.Errors) < mostErrors {
						out.Errors[text]++
					}
				}
				lock.Unlock()
			}
		})
	}
	next := time.Now()
	for range calls {
		time.Sleep(time.Until(next))
		next = next.Add(every)
		ticks <- struct{}{}
	}
	close(ticks)
	group.Wait()
	return out
}

func call(client *http.Client, url string, body []byte) error {
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}
