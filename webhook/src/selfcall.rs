//! One call to our own admission port: proof that it answers by TLS with the key of the certificate it shows.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use headroom_kit::tls::provider;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// How long the call may take.
const LIMIT: Duration = Duration::from_secs(3);

/// Why we do not answer ourselves.
#[derive(Debug, thiserror::Error)]
pub enum SelfCallError {
    /// No connection, or no handshake.
    #[error("cannot connect to {address} by TLS")]
    Connect {
        /// Our own address.
        address: SocketAddr,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// Settings that the TLS library refuses.
    #[error("refused TLS settings")]
    Settings(#[source] rustls::Error),
    /// A handshake, but no answer.
    #[error("no HTTP answer from {address}")]
    Http {
        /// Our own address.
        address: SocketAddr,
        /// The reason.
        #[source]
        source: hyper::Error,
    },
    /// Too late.
    #[error("no answer from {address} within {LIMIT:?}")]
    Slow {
        /// Our own address.
        address: SocketAddr,
    },
}

/// Connects to the port that we serve and waits for an answer, whatever it says.
///
/// # Errors
/// There is none in time.
pub async fn call(bound: SocketAddr) -> Result<(), SelfCallError> {
    let address = reachable(bound);
    let answered = timeout(LIMIT, ask(address)).await;
    answered.map_err(|_elapsed| SelfCallError::Slow { address })?
}

async fn ask(address: SocketAddr) -> Result<(), SelfCallError> {
    let failed = |source| SelfCallError::Connect { address, source };
    let tcp = TcpStream::connect(address).await.map_err(failed)?;
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
    sender
        .send_request(Request::new(Empty::<Bytes>::new()))
        .await
        .map(drop)
        .map_err(failed)
}

/// Where a listener on all addresses is met from here.
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

/// Accepts any certificate, as long as the server has its key: who issued ours is not known here, and nothing is
/// told to whoever answers.
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
