// SPDX-License-Identifier: ISC

//! Uses rustls, and changes its keys: see test_peers.py. A client's arguments: the port, the seed,
//! rounds. A server's: "server", PostgreSQL's port, the certificate, the key.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection};
use rustls::{SignatureScheme, StreamOwned};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Conn = StreamOwned<ClientConnection, TcpStream>;

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self, _: &CertificateDer, _: &[CertificateDer], _: &ServerName, _: &[u8], _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self, _: &[u8], _: &CertificateDer, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self, _: &[u8], _: &CertificateDer, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256]
    }
}

fn message(kind: &str, body: &[u8]) -> Vec<u8> {
    [kind.as_bytes(), &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Reads up to ReadyForQuery, and returns the row's first value.
fn answer(conn: &mut Conn) -> Vec<u8> {
    let mut row = Vec::new();
    loop {
        let mut head = [0; 5];
        conn.read_exact(&mut head).unwrap();
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        conn.read_exact(&mut body).unwrap();
        match head[0] {
            b'D' => row = body[6..].to_vec(),
            b'E' => panic!("{}", String::from_utf8_lossy(&body)),
            b'Z' => return row,
            _ => (),
        }
    }
}

fn chances(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed * 2 + 1;
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    }
}

/// Gives PostgreSQL TLS for one connection, and PostgreSQL's answers in pieces of any size.
fn carry(mut plain: TcpStream, config: Arc<ServerConfig>, port: u16) {
    plain.read_exact(&mut [0; 8]).unwrap();
    plain.write_all(b"S").unwrap();
    let mut tls = ServerConnection::new(config).unwrap();
    tls.complete_io(&mut plain).unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (conn, mut chance) = (Arc::new(Mutex::new(tls)), chances(port.into()));
    let (other, mut from, mut to) = (conn.clone(), server.try_clone().unwrap(), plain.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut part = [0; 40000];
        loop {
            let Ok(count @ 1..) = from.read(&mut part[..1 + chance(40000)]) else { return };
            let mut tls = other.lock().unwrap();
            if chance(8) == 0 {
                tls.refresh_traffic_keys().unwrap();
            }
            let mut rest = &part[..count];
            while !rest.is_empty() {
                rest = &rest[tls.writer().write(rest).unwrap()..];
                while tls.wants_write() {
                    if tls.write_tls(&mut to).is_err() {
                        return;
                    }
                }
            }
        }
    });
    let mut raw = [0; 65536];
    loop {
        let mut left = match plain.read(&mut raw).unwrap() {
            0 => panic!("an end without close_notify"),
            count => &raw[..count],
        };
        let (mut text, mut is_over) = (Vec::new(), false);
        let mut tls = conn.lock().unwrap();
        while !left.is_empty() {
            tls.read_tls(&mut left).unwrap();
            let state = tls.process_new_packets().unwrap();
            is_over |= state.peer_has_closed();
            let old = text.len();
            text.resize(old + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut text[old..]).unwrap();
        }
        while tls.wants_write() {
            tls.write_tls(&mut plain).unwrap();
        }
        drop(tls);
        let _ = server.write_all(&text);
        if is_over {
            println!("closed");
            let _ = server.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn serve(port: u16, cert: &str, key: &str) {
    let chain = CertificateDer::pem_file_iter(cert).unwrap().map(|each| each.unwrap()).collect();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13]).unwrap()
        .with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for plain in listener.incoming() {
        let config = config.clone();
        std::thread::spawn(move || carry(plain.unwrap(), config, port));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "server" {
        return serve(args[1].parse().unwrap(), &args[2], &args[3]);
    }
    let args: Vec<usize> = args.iter().map(|word| word.parse().unwrap()).collect();
    let mut chance = chances(args[1] as u64);
    let mut plain = TcpStream::connect(("127.0.0.1", args[0] as u16)).unwrap();
    plain.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    plain.read_exact(&mut [0]).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13]).unwrap()
        .dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth();
    let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut conn = StreamOwned::new(tls, plain);
    conn.write_all(&message("", b"\0\x03\0\0user\0alice\0database\0app\0\0")).unwrap();
    answer(&mut conn);
    for round in 0..args[2] {
        let size = [0, 1, 16383, 16384, 16385, chance(100000)][chance(6)];
        let text = vec![b'a' + chance(26) as u8; size];
        let query = message("Q", &[b"SELECT '", &text[..], b"'\0"].concat());
        let mut rest = &query[..];
        while !rest.is_empty() {
            let (part, more) = rest.split_at(1 + chance(rest.len()));
            conn.write_all(part).unwrap();
            rest = more;
        }
        if round % 8 == 0 {
            conn.conn.refresh_traffic_keys().unwrap();
        }
        assert!(answer(&mut conn) == text, "round {round}: another text");
    }
    conn.conn.send_close_notify();
    conn.flush().unwrap();
    conn.sock.shutdown(Shutdown::Write).unwrap();
    let mut more = Vec::new();
    conn.read_to_end(&mut more).unwrap();
    assert!(more.is_empty());
    println!("ok");
}
