// SPDX-License-Identifier: ISC

// Uses TLS of Go: see test_peers.py. A client's arguments: the port, the seed, rounds. A server's:
// "server", PostgreSQL's port, the certificate, the key.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

func message(kind string, body []byte) []byte {
	size := make([]byte, 4)
	binary.BigEndian.PutUint32(size, uint32(len(body)+4))
	return append([]byte(kind), append(size, body...)...)
}

// Reads up to ReadyForQuery, and returns the row's first value.
func answer(conn io.Reader) []byte {
	var row []byte
	for {
		head := make([]byte, 5)
		_, err := io.ReadFull(conn, head)
		check(err)
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		_, err = io.ReadFull(conn, body)
		check(err)
		switch head[0] {
		case 'D':
			row = body[6:]
		case 'E':
			check(fmt.Errorf("%q", body))
		case 'Z':
			return row
		}
	}
}

// Gives PostgreSQL TLS for one connection, and PostgreSQL's answers in pieces of any size.
func carry(plain net.Conn, config *tls.Config, port string) {
	_, err := io.ReadFull(plain, make([]byte, 8))
	check(err)
	_, err = plain.Write([]byte("S"))
	check(err)
	conn := tls.Server(plain, config)
	check(conn.Handshake())
	server, err := net.Dial("tcp", "127.0.0.1:"+port)
	check(err)
	go func() {
		part := make([]byte, 40000)
		for {
			count, err := server.Read(part[:1+rand.Intn(len(part))])
			if err != nil {
				conn.Close()
				return
			}
			if _, err = conn.Write(part[:count]); err != nil {
				return
			}
		}
	}()
	_, err = io.Copy(server, conn) // no error is a close_notify
	check(err)
	fmt.Println("closed")
	server.Close()
}

func serve(port, cert, key string) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		plain, err := listener.Accept()
		check(err)
		go carry(plain, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, port)
	}
}

func main() {
	if os.Args[1] == "server" {
		serve(os.Args[2], os.Args[3], os.Args[4])
	}
	seed, _ := strconv.Atoi(os.Args[2])
	rounds, _ := strconv.Atoi(os.Args[3])
	chance := rand.New(rand.NewSource(int64(seed)))
	plain, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	check(err)
	_, err = plain.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	check(err)
	yes := make([]byte, 1)
	_, err = io.ReadFull(plain, yes)
	check(err)
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
		DynamicRecordSizingDisabled: seed%2 == 0})
	_, err = conn.Write(message("", []byte("\x00\x03\x00\x00user\x00alice\x00database\x00app\x00\x00")))
	check(err)
	answer(conn)
	for i := 0; i < rounds; i++ {
		size := []int{0, 1, 16383, 16384, 16385, chance.Intn(100000)}[chance.Intn(6)]
		text := bytes.Repeat([]byte{byte('a' + chance.Intn(26))}, size)
		query := message("Q", []byte("SELECT '"+string(text)+"'\x00"))
		for len(query) > 0 {
			count := 1 + chance.Intn(len(query))
			_, err = conn.Write(query[:count])
			check(err)
			query = query[count:]
		}
		if got := answer(conn); !bytes.Equal(got, text) {
			check(fmt.Errorf("round %d: another text", i))
		}
	}
	check(conn.CloseWrite())
	rest, err := io.ReadAll(conn)
	if err != nil || len(rest) > 0 {
		check(fmt.Errorf("after the end: %q %v", rest, err))
	}
	fmt.Println("ok")
}
