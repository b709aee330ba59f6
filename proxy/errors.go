package proxy

import (
	"net/http"
	"strconv"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// errorBody is an error in the dialect's own shape, so that a client shows its
// text. Sources: the error objects of Anthropic's and OpenAI's API references.
func errorBody(d wire.Dialect, status int, code, text string) []byte {
	kind := "invalid_request_error"
	if status >= 500 {
		kind = "api_error"
	}
	var b []byte
	if d == wire.Messages {
		b = append(b, `{"type":"error","error":{"type":"`+kind+`","message":`...)
		b = tape.Quote(b, "guardproxy: "+text)
		return append(b, "}}"...)
	}
	b = append(b, `{"error":{"message":`...)
	b = tape.Quote(b, "guardproxy: "+text)
	return append(b, `,"type":"`+kind+`","param":null,"code":"guardproxy_`+code+`"}}`...)
}

// writeError answers a request that goes no further.
func writeError(w http.ResponseWriter, d wire.Dialect, status int, code, text string) {
	if x := noted(w); x.Refused == "" {
		x.Refused = code
		if x.Dialect == "" {
			x.Dialect = string(d)
		}
	}
	body := errorBody(d, status, code, text)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Guardproxy-Error", code)
	w.WriteHeader(status)
	w.Write(body)
}

// errorEvent ends a stream that has begun.
func errorEvent(d wire.Dialect, code, text string) []byte {
	body := errorBody(d, http.StatusBadGateway, code, text)
	switch d {
	case wire.Messages:
		return append(append([]byte("event: error\ndata: "), body...), "\n\n"...)
	case wire.Responses:
		// Its error event has the members beside the type; the SDKs look for an
		// error object first.
		b := append([]byte("event: error\ndata: {\"type\":\"error\",\"code\":\"guardproxy_"), code...)
		b = tape.Quote(append(b, `","message":`...), "guardproxy: "+text)
		b = append(append(b, `,"param":null,`...), body[1:]...)
		return append(b, "\n\n"...)
	}
	return append(append([]byte("data: "), body...), "\n\n"...)
}
