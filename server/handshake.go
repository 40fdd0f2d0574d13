package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// tlsListener hands out connections whose handshake is done. net/http would do
// it too, but tells of a failure only as text in a log, and hangs up so that
// the client often sees a reset instead of the alert that says why.
type tlsListener struct {
	net.Listener
	config *tls.Config
	// refused is told of each handshake that failed.
	refused func(net.Conn, error)

	start  sync.Once
	ready  chan accepted
	ctx    context.Context // of the handshakes; ends with Close
	cancel context.CancelFunc
	atWork sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

func newTLSListener(l net.Listener, config *tls.Config, refused func(net.Conn, error)) *tlsListener {
	ctx, cancel := context.WithCancel(context.Background())
	return &tlsListener{Listener: l, config: config, refused: refused, ready: make(chan accepted), ctx: ctx, cancel: cancel}
}

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	l.start.Do(func() { l.atWork.Go(l.acceptAll) })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Handshakes under way are cut off.
func (l *tlsListener) Close() error {
	l.cancel()
	return l.Listener.Close()
}

// wait returns, after Close, when nothing is at work any more.
func (l *tlsListener) wait() { l.atWork.Wait() }

func (l *tlsListener) acceptAll() {
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			l.atWork.Go(func() { l.handshake(conn) })
			continue
		}
		// Handing the error on also waits: net/http pauses after one that may
		// pass, such as too many open files.
		if !l.handOn(accepted{err: err}) {
			return
		}
	}
}

// handOn gives something to Accept, unless the listener is closed.
func (l *tlsListener) handOn(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (l *tlsListener) handshake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	peeked := &peekedConn{Conn: raw}
	err := peeked.peek(ctx)
	if err == nil && looksLikeHTTP(peeked.begin) {
		l.refused(raw, errPlainHTTP)
		answerPlainHTTP(peeked)
		l.hangUp(raw)
		return
	}
	conn := tls.Server(peeked, l.config)
	if err == nil {
		err = conn.HandshakeContext(ctx)
	}
	switch {
	case err == nil:
		if !l.handOn(accepted{conn: conn}) {
			_ = conn.Close()
		}
		return
	case l.ctx.Err() != nil, hungUp(err):
		// A stop, or one who only looked whether the port is open.
	default:
		l.refused(raw, err)
	}
	l.hangUp(raw)
}

// peekedConn is a connection whose first bytes have been looked at. They cannot
// be had from crypto/tls, which reads more than it hands back.
type peekedConn struct {
	net.Conn
	begin []byte // not yet read
}

// peek waits for the first bytes.
func (p *peekedConn) peek(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = p.SetReadDeadline(time.Unix(1, 0)) })()
	begin := make([]byte, 5)
	_, err := io.ReadFull(p.Conn, begin)
	p.begin = begin
	return err
}

// Read implements net.Conn.
func (p *peekedConn) Read(b []byte) (int, error) {
	if len(p.begin) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.begin)
	if p.begin = p.begin[n:]; len(p.begin) == 0 {
		p.begin = nil
	}
	return n, nil
}

// hangUp closes a connection so that the client gets to read what was sent last:
// data that nobody has read would make it a reset.
func (l *tlsListener) hangUp(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	if conn.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, DefaultMaxBindBytes)) // or until it has gone
	}
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// refuseHandshake counts and logs a handshake that failed.
func (s *Server) refuseHandshake(conn net.Conn, err error) {
	reason := reasonProtocol
	if errors.Is(err, errPlainHTTP) {
		reason = reasonPlainHTTP
	}
	var fields []zap.Field
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		fields = append(fields, zap.String("hint", "the caller refused prebind's serving certificate: compare its CA and server name with server.tls.certFile"))
	}
	s.refusals.add(reason, conn.RemoteAddr().String(), err, fields...)
}
