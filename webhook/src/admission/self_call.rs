//! Calls the webhook's own admission port and sets readiness. An answer proves that the port speaks TLS with the key of
//! the certificate it shows.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use headroom_kit::{admin::PartReadiness, log::chain, serve::ReservedPlace, tls::provider};
use http::{HeaderValue, Method, Request, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::json;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;

use crate::admission::endpoints::NODE_STATUS;

/// Timeout of the call.
const LIMIT: Duration = Duration::from_secs(3);
/// Pause between calls until the first is answered.
const FIRST_EVERY: Duration = Duration::from_millis(200);
/// Pause after a call that was answered.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Pause after one that was not.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Calls in a row without an answer that make us unready: one of them may have met a busy moment.
const MOST_UNANSWERED: u32 = 3;

/// Why we do not answer ourselves.
#[derive(Debug, thiserror::Error)]
pub enum SelfCallError {
    /// No connection, or no handshake.
    #[error("no TLS connection to {address}")]
    Connect {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// Settings that the TLS library refuses.
    #[error("invalid TLS settings")]
    Settings(#[source] rustls::Error),
    /// A handshake, but no answer.
    #[error("no HTTP answer from {address}")]
    Http {
        address: SocketAddr,
        #[source]
        source: hyper::Error,
    },
    #[error("no answer from {address} within {LIMIT:?}")]
    Slow { address: SocketAddr },
}

/// Calls the port that we serve until `stopping`: ready from the first answer on, as long as there are answers.
pub async fn repeat(
    bound: SocketAddr,
    place: &ReservedPlace,
    ready: &PartReadiness,
    stopping: &CancellationToken,
) {
    stopping
        .run_until_cancelled(decide_readiness(|| call(bound, place), ready))
        .await;
}

async fn decide_readiness<F>(mut call: impl FnMut() -> F, ready: &PartReadiness)
where
    F: Future<Output = Result<(), SelfCallError>>,
{
    let (mut was_answered, mut unanswered) = (false, 0_u32);
    loop {
        let pause = match call().await {
            Ok(()) => {
                (was_answered, unanswered) = (true, 0);
                ready.ready();
                AGAIN_AFTER
            }
            Err(error) => {
                unanswered = unanswered.saturating_add(1);
                warn!(error = %chain(&error), unanswered, "our own port does not answer; the replica is not ready");
                if !was_answered || unanswered >= MOST_UNANSWERED {
                    ready.not_ready(chain(&error).to_string());
                }
                if was_answered { RETRY_AFTER } else { FIRST_EVERY }
            }
        };
        sleep(pause).await;
    }
}

/// Connects to our own port, on the place reserved for this, and waits for any answer.
///
/// # Errors
/// There is none in time.
pub async fn call(bound: SocketAddr, place: &ReservedPlace) -> Result<(), SelfCallError> {
    let address = reachable(bound);
    let answered = timeout(LIMIT, ask(address, place)).await;
    answered.map_err(|_elapsed| SelfCallError::Slow { address })?
}

/// Connects from a port that the listener knows.
async fn connect(address: SocketAddr, place: &ReservedPlace) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.bind(SocketAddr::new(address.ip(), 0))?;
    place.set(socket.local_addr()?);
    socket.connect(address).await
}

async fn ask(address: SocketAddr, place: &ReservedPlace) -> Result<(), SelfCallError> {
    let failed = |source| SelfCallError::Connect { address, source };
    let tcp = connect(address, place).await.map_err(failed)?;
    let connector = TlsConnector::from(Arc::new(settings()?));
    let tls = connector
        .connect(ServerName::IpAddress(address.ip().into()), tcp)
        .await
        .map_err(failed)?;
    let failed = |source| SelfCallError::Http { address, source };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
        .await
        .map_err(failed)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    sender.send_request(question()).await.map(drop).map_err(failed)
}

/// A review that no endpoint has an opinion on.
fn question() -> Request<Full<Bytes>> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "self-call",
            "operation": "CONNECT",
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "userInfo": {"username": "self-call"},
        },
    });
    let mut request = Request::new(Full::from(review.to_string()));
    *request.method_mut() = Method::POST;
    if let Ok(uri) = NODE_STATUS.declaration().path.parse() {
        *request.uri_mut() = uri;
    }
    request
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

/// Address at which a listener on all addresses is reachable from here.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, bound.port())
}

fn settings() -> Result<ClientConfig, SelfCallError> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(SelfCallError::Settings)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyIssuer(algorithms)))
        .with_no_client_auth();
    Ok(config)
}

/// Accepts any certificate whose key the server holds: the issuer of ours is unknown here, and the call sends no
/// secrets.
#[derive(Debug)]
struct AnyIssuer(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyIssuer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use headroom_kit::{
        admin::Readiness,
        serve::{Limits, Listener, RequestBody},
        supervise::Shutdown,
        tls::{self, CertStore, ClientAuth, MinVersion, self_signed},
    };
    use http::{Response, StatusCode};
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_port_that_serves_is_answered_and_one_that_does_not_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let now = std::time::SystemTime::now();
        let files = self_signed::ensure(folder.path(), &["a.svc".to_owned()], now).unwrap();
        let store = CertStore::load("test", files, now).unwrap();
        let tls = tls::server_config(store, MinVersion::Tls12, &ClientAuth::None, &["http/1.1"]).unwrap();
        let listener = Listener::bind("test", ([127, 0, 0, 1], 0).into(), Limits::default())
            .await
            .unwrap();
        let (address, place) = (listener.address(), listener.reserved());
        let (asked_tx, mut asked) = mpsc::unbounded_channel();
        let answer = move |request: Request<RequestBody>| {
            let asked_tx = asked_tx.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                asked_tx.send((path, body)).unwrap();
                let mut response = Response::new(Full::<Bytes>::default());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        };
        let shutdown = Shutdown::new();
        let serving = tokio::spawn(listener.serve_http(Some(tls), shutdown.clone(), answer));
        call(address, &place).await.unwrap();
        let (path, body) = asked.recv().await.unwrap();
        assert_eq!(path, NODE_STATUS.declaration().path);
        let review = crate::admission::review::decode(&body).unwrap();
        assert_eq!(review.request.uid, "self-call");

        shutdown.stop();
        serving.await.unwrap();
        assert!(matches!(
            call(address, &place).await,
            Err(SelfCallError::Connect { .. })
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_follows_the_answers_and_outlives_two_that_are_missing() {
        let readiness = Readiness::new();
        let ready = readiness.handle("admission");
        let address = ([127, 0, 0, 1], 1).into();
        // No answer, then two gaps, an answer, and silence until the next answer.
        let script = [
            false, true, true, false, false, true, false, false, false, false, true,
        ];
        let mut calls = script.into_iter();
        let seen = RefCell::new(Vec::new());
        let deciding = decide_readiness(
            || {
                seen.borrow_mut().push(readiness.is_ready());
                let next = calls.next();
                async move {
                    match next {
                        Some(true) => Ok(()),
                        Some(false) => Err(SelfCallError::Slow { address }),
                        None => std::future::pending().await,
                    }
                }
            },
            &ready,
        );
        let begun = tokio::time::Instant::now();
        assert!(timeout(Duration::from_secs(3600), deciding).await.is_err());
        assert!(begun.elapsed() >= Duration::from_secs(3600));
        let (t, f) = (true, false);
        // Expected state after each call.
        assert_eq!(seen.into_inner(), [f, f, t, t, t, t, t, t, t, f, f, t]);
        assert!(readiness.is_ready());
    }

    #[test]
    fn a_listener_on_all_addresses_is_met_on_loopback() {
        let reached = |bound: &str| reachable(bound.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(reached("[::]:1"), "[::1]:1");
        assert_eq!(reached("10.0.0.1:1"), "10.0.0.1:1");
    }
}
