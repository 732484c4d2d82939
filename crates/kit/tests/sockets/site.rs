//! Fixtures of the socket tests: certificates in a temporary directory, a server on port 0, an HTTP/1.1 client.

use std::{
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use headroom_kit::{
    serve::{Limits, Listener, RequestBody},
    supervise::Shutdown,
    tls::{CertStore, ClientAuth, Files, MinVersion, client, self_signed, server_config},
};
use http::{Request, Response};
use rustls::{ClientConfig, ServerConfig, pki_types::CertificateDer};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Longer than any step here takes; a test that reaches it has failed.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The name in every test certificate.
pub(crate) const NAME: &str = "site.test";

/// A CA and a key pair in a directory.
pub(crate) struct Certs {
    pub(crate) place: TempDir,
    pub(crate) files: Files,
}

/// A server in the background.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) serving: JoinHandle<()>,
}

impl Certs {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let files = self_signed::ensure(place.path(), &[NAME.to_owned()], SystemTime::now()).unwrap();
        Self { place, files }
    }

    pub(crate) fn ca(&self) -> std::path::PathBuf {
        self.place.path().join(self_signed::CA_CERT)
    }

    pub(crate) fn store(&self) -> Arc<CertStore> {
        CertStore::load("test", self.files.clone(), SystemTime::now()).unwrap()
    }

    pub(crate) fn server(&self, clients: &ClientAuth, alpn: &[&str]) -> Arc<ServerConfig> {
        server_config(self.store(), MinVersion::Tls12, clients, alpn).unwrap()
    }

    pub(crate) fn client(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        client::client_config(&self.ca(), None, alpn).unwrap()
    }
}

impl Site {
    /// Answers every request with `answer`.
    pub(crate) async fn start<F, T>(limits: Limits, tls: Option<Arc<ServerConfig>>, answer: F) -> Self
    where
        F: Fn(Request<RequestBody>) -> T + Clone + Send + Sync + 'static,
        T: Future<Output = String> + Send + 'static,
    {
        let listener = bind(limits).await;
        let (address, shutdown) = (listener.address(), Shutdown::new());
        let answer = move |request| {
            let text = answer(request);
            async move { Response::new(text.await) }
        };
        let serving = tokio::spawn(listener.serve_http(tls, shutdown.clone(), answer));
        Self {
            address,
            shutdown,
            serving,
        }
    }

    /// Answers every request with its path.
    pub(crate) async fn echo(limits: Limits, tls: Option<Arc<ServerConfig>>) -> Self {
        Self::start(
            limits,
            tls,
            |request| async move { request.uri().path().to_owned() },
        )
        .await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        within(TcpStream::connect(self.address)).await.unwrap()
    }

    pub(crate) async fn connect_tls(
        &self,
        config: Arc<ClientConfig>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(config);
        within(connector.connect(client::server_name(NAME).unwrap(), self.connect().await)).await
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A listener on a free port of this machine.
pub(crate) async fn bind(limits: Limits) -> Listener {
    Listener::bind("test", (Ipv4Addr::LOCALHOST, 0).into(), limits)
        .await
        .unwrap()
}

/// Fails the test if the future takes longer than [`TEST_TIMEOUT`].
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, future).await.unwrap()
}

/// Sends a request and reads its answer, on a connection that stays open.
pub(crate) async fn get<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    path: &str,
) -> std::io::Result<String> {
    send(stream, path).await?;
    answer(stream).await
}

pub(crate) async fn send<S: AsyncWrite + Unpin>(stream: &mut S, path: &str) -> std::io::Result<()> {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: {NAME}\r\n\r\n").as_bytes())
        .await?;
    stream.flush().await
}

/// Reads one answer with a content-length: head and body.
pub(crate) async fn answer<S: AsyncRead + Unpin>(stream: &mut S) -> std::io::Result<String> {
    let mut text = Vec::new();
    within(async {
        loop {
            let seen = String::from_utf8_lossy(&text).into_owned();
            if let Some((head, body)) = seen.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .unwrap();
                if body.len() >= length.parse().unwrap() {
                    return Ok(seen);
                }
            }
            if stream.read_buf(&mut text).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    })
    .await
}

/// Waits until the server closes the connection; data before that is discarded.
pub(crate) async fn closed<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut sink = [0; 1024];
    within(async {
        // An error counts as a close too: a reset, or TLS without a close notification.
        while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    })
    .await;
}

/// The leaf certificate that the server presented.
pub(crate) fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(<[_]>::first)
        .unwrap()
        .clone()
        .into_owned()
}

/// The first certificate in a PEM file.
pub(crate) fn certificate_in(path: &Path) -> CertificateDer<'static> {
    use rustls_pki_types::pem::PemObject as _;
    CertificateDer::from_pem_file(path).unwrap()
}
