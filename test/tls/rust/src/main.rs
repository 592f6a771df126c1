// SPDX-License-Identifier: ISC

//! A client that uses rustls, and changes its keys: see test_peers.py. Arguments: the port, the
//! seed, rounds.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

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

fn main() {
    let args: Vec<usize> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let mut state = args[1] as u64 * 2 + 1;
    let mut chance = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
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
