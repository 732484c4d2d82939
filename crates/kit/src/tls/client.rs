//! TLS clients: settings for any socket, and a connector for gRPC channels.

use std::{
    io,
    path::Path,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::Service;

use super::{Files, TlsError, pem, provider};

/// Connects a gRPC channel by TLS to the server of one name, whatever address the URI contains.
///
/// For `tonic::transport::Endpoint::connect_with_connector`. The URI's scheme must be `http`, because tonic adds no
/// TLS of its own then.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    name: ServerName<'static>,
    limit: Duration,
}

/// Builds settings of a client that trusts one CA bundle (PEM file) and presents a certificate if it has one.
///
/// # Errors
/// A file cannot be read, or its content cannot be used.
pub fn client_config(
    ca: &Path,
    identity: Option<&Files>,
    alpn: &[&str],
) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Settings)?
        .with_root_certificates(pem::roots(ca)?);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let chain = pem::certificates(&pem::read(&files.cert)?, &files.cert)?;
            let key = pem::private_key(&pem::read(&files.key)?, &files.key)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|source| TlsError::Unusable {
                    path: files.cert.clone(),
                    source,
                })?
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// Parses a name or address that a server certificate may contain.
///
/// # Errors
/// The text is neither a DNS name nor an IP address.
pub fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|source| TlsError::Name {
        name: name.to_owned(),
        source,
    })
}

impl Connector {
    /// Creates a connector to servers whose certificate is valid for `name`; `limit` bounds DNS, connect and
    /// handshake together.
    pub fn new(config: Arc<ClientConfig>, name: ServerName<'static>, limit: Duration) -> Self {
        Self {
            tls: TlsConnector::from(config),
            name,
            limit,
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, name, limit } = self.clone();
        Box::pin(async move {
            let connect = async {
                let tcp = TcpStream::connect(address(&uri)?).await?;
                tcp.set_nodelay(true)?;
                tls.connect(name, tcp).await
            };
            timeout(limit, connect).await?.map(TokioIo::new)
        })
    }
}

/// Host and port of a URI, without the brackets of IPv6 addresses.
fn address(uri: &Uri) -> io::Result<(&str, u16)> {
    let refuse = || io::Error::new(io::ErrorKind::InvalidInput, format!("no host and port in {uri}"));
    let host = uri.host().ok_or_else(refuse)?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    Ok((host, uri.port_u16().ok_or_else(refuse)?))
}
