//! Tests of a TLS listener: protocol versions, ALPN, client certificates, session resumption.

use std::{fs, sync::Arc};

use headroom_kit::{
    serve::{Limits, Peer},
    tls::{ClientAuth, Files, MinVersion, client, provider, self_signed, server_config},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::{
    CipherSuite, ClientConfig, ProtocolVersion, RootCertStore, SupportedCipherSuite,
    crypto::CryptoProvider,
    version::{TLS12, TLS13},
};

use super::site::{Certs, Site, certificate_in, get};

/// A client certificate issued by the CA of these certificates.
pub(crate) fn identity(certs: &Certs) -> Files {
    let read = |name| fs::read_to_string(certs.place.path().join(name)).unwrap();
    let ca_key = KeyPair::from_pem(&read(self_signed::CA_KEY)).unwrap();
    let ca = Issuer::from_ca_cert_pem(&read(self_signed::CA_CERT), ca_key).unwrap();
    let mut params = CertificateParams::new(["agent".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let files = Files {
        cert: certs.place.path().join("client.crt"),
        key: certs.place.path().join("client.key"),
    };
    fs::write(&files.cert, params.signed_by(&key, &ca).unwrap().pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

/// A server that answers with the number of certificates its client presented.
async fn counting(certs: &Certs, clients: &ClientAuth) -> Site {
    Site::start(
        Limits::default(),
        Some(certs.server(clients, &["http/1.1"])),
        |request| async move {
            let peer = request.extensions().get::<Peer>().unwrap();
            peer.certificates
                .as_ref()
                .map_or("none".to_owned(), |chain| format!("shown {}", chain.len()))
        },
    )
    .await
}

/// Body that the server sends to a client with this identity.
async fn response(site: &Site, certs: &Certs, identity: Option<&Files>) -> std::io::Result<String> {
    let config = client::client_config(&certs.ca(), identity, &["http/1.1"]).unwrap();
    let mut stream = site.connect_tls(config).await?;
    let text = get(&mut stream, "/").await?;
    Ok(text.rsplit("\r\n").next().unwrap().to_owned())
}

#[tokio::test]
async fn a_required_client_certificate_is_required() {
    let (certs, strangers) = (Certs::new(), Certs::new());
    let site = counting(&certs, &ClientAuth::Required(certs.ca())).await;
    assert_eq!(
        response(&site, &certs, Some(&identity(&certs))).await.unwrap(),
        "shown 1"
    );
    assert!(response(&site, &certs, None).await.is_err());
    assert!(
        response(&site, &certs, Some(&identity(&strangers)))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn an_optional_client_certificate_may_be_absent_but_not_wrong() {
    let (certs, strangers) = (Certs::new(), Certs::new());
    let site = counting(&certs, &ClientAuth::Optional(certs.ca())).await;
    assert_eq!(
        response(&site, &certs, Some(&identity(&certs))).await.unwrap(),
        "shown 1"
    );
    assert_eq!(response(&site, &certs, None).await.unwrap(), "none");
    assert!(
        response(&site, &certs, Some(&identity(&strangers)))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_session_with_a_client_certificate_is_not_resumed() {
    let certs = Certs::new();
    let site = counting(&certs, &ClientAuth::Required(certs.ca())).await;
    let config = client::client_config(&certs.ca(), Some(&identity(&certs)), &["http/1.1"]).unwrap();
    for _ in 0..2 {
        let mut stream = site.connect_tls(Arc::clone(&config)).await.unwrap();
        get(&mut stream, "/").await.unwrap();
        assert_eq!(
            stream.get_ref().1.handshake_kind(),
            Some(rustls::HandshakeKind::Full)
        );
    }
}

#[tokio::test]
async fn a_client_of_another_ca_does_not_trust_us() {
    let (certs, strangers) = (Certs::new(), Certs::new());
    let site = counting(&certs, &ClientAuth::None).await;
    assert!(response(&site, &strangers, None).await.is_err());
}

#[tokio::test]
async fn the_oldest_version_is_a_choice() {
    let certs = Certs::new();
    let mut roots = RootCertStore::empty();
    roots.add(certificate_in(&certs.ca())).unwrap();
    let old = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let old = Arc::new(old);
    for (min, is_welcome) in [(MinVersion::Tls12, true), (MinVersion::Tls13, false)] {
        let tls = server_config(certs.store(), min, &ClientAuth::None, &[]).unwrap();
        let site = Site::echo(Limits::default(), Some(tls)).await;
        assert_eq!(
            site.connect_tls(Arc::clone(&old)).await.is_ok(),
            is_welcome,
            "{min:?}"
        );
        let new = site.connect_tls(certs.client(&[])).await.unwrap();
        assert_eq!(new.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    }
}

#[tokio::test]
async fn aes_128_is_offered_first_and_the_client_chooses() {
    let certs = Certs::new();
    let site = Site::echo(Limits::default(), Some(certs.server(&ClientAuth::None, &[]))).await;
    let chosen = async |client| {
        let stream = site.connect_tls(client).await.unwrap();
        let suite = stream.get_ref().1.negotiated_cipher_suite();
        suite.as_ref().map(SupportedCipherSuite::suite)
    };
    let ours = chosen(certs.client(&[])).await;
    assert_eq!(ours, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));

    let mut reversed = CryptoProvider::clone(&provider());
    reversed.cipher_suites.reverse();
    let mut roots = RootCertStore::empty();
    roots.add(certificate_in(&certs.ca())).unwrap();
    let other = ClientConfig::builder_with_provider(Arc::new(reversed))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let theirs = chosen(Arc::new(other)).await;
    assert_eq!(theirs, Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256));
}

#[tokio::test]
async fn http2_is_spoken_only_where_it_is_offered() {
    let certs = Certs::new();
    let both = ["h2", "http/1.1"];
    for (offered, spoken) in [(&both[..], &b"h2"[..]), (&both[1..], &b"http/1.1"[..])] {
        let site = Site::echo(Limits::default(), Some(certs.server(&ClientAuth::None, offered))).await;
        let mut stream = site.connect_tls(certs.client(&both)).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(spoken));
        if spoken == b"h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let request = http::Request::get("http://site.test/two")
                .body(String::new())
                .unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(
                (response.status(), response.version()),
                (http::StatusCode::OK, http::Version::HTTP_2)
            );
        } else {
            assert!(get(&mut stream, "/one").await.unwrap().ends_with("/one"));
        }
    }
}

#[test]
fn an_invalid_client_ca_is_refused() {
    let certs = Certs::new();
    let clients = ClientAuth::Required(certs.files.key.clone());
    let error = server_config(certs.store(), MinVersion::Tls12, &clients, &[])
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("no usable certificate in "), "{error}");
}
