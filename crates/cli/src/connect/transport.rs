//! HTTP client of one server, directly or through a [`Proxy`].
//!
//! The connector of the library `kube` cannot be used: it compares NO_PROXY with the proxy instead of the server, ignores
//! HTTP_PROXY, opens tunnels for plain HTTP, which many proxies refuse, and sends no password to a SOCKS proxy.

use std::{
    future::ready,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{
    Request, Uri,
    header::{HOST, PROXY_AUTHORIZATION},
    uri::Scheme,
};
use http_body_util::Empty;
use hyper::{
    client::conn::http1,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connected, Connection as ConnectionInfo, HttpConnector, proxy::SocksV5},
    },
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
};
use tower::{BoxError, Service as _, ServiceBuilder, ServiceExt as _, service_fn, util::BoxCloneSyncService};

use super::proxy::{Proxy, ProxyProtocol};
use crate::cause::innermost;

trait Duplex: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Duplex for T {}

type TcpOrTls = Box<dyn Duplex>;

/// Opens connections to the host of a URI.
type Connector = BoxCloneSyncService<Uri, TcpOrTls, BoxError>;

type Dialling = Pin<Box<dyn Future<Output = Result<ServerStream, BoxError>> + Send>>;

/// Connection to a server, or to the proxy that forwards its requests.
struct ServerStream {
    stream: TcpOrTls,
    /// True if a proxy forwards each request, which then has the absolute URI.
    is_forwarded: bool,
}

/// The proxy is unreachable, or does not connect to the server. The problem contains the cause.
#[derive(Debug, thiserror::Error)]
#[error("{proxy} {problem}")]
struct ProxyError {
    proxy: Proxy,
    problem: String,
}

/// Creates a client without retries.
///
/// # Errors
/// The configuration is unusable.
pub(super) fn client(mut config: Config, proxy: Option<Proxy>) -> kube::Result<Client> {
    let proxy = proxy.map(Arc::new);
    let is_plain = config.cluster_url.scheme() != Some(&Scheme::HTTPS);
    if let Some(value) = proxy.as_deref().and_then(Proxy::authorization)
        && is_plain
    {
        config.headers.push((PROXY_AUTHORIZATION, value.clone()));
    }
    // First, because it is the first to report a credential plugin that fails.
    let authentication = config.auth_layer()?;
    let connector = connector(&config, proxy.as_deref())?;
    let dial = service_fn(move |server: Uri| {
        let (connector, proxy) = (connector.clone(), proxy.clone());
        let dialled: Dialling = Box::pin(dial(connector, proxy, server));
        dialled
    });
    let secured = config.rustls_https_connector_with_connector(dial)?;
    let mut limited = TimeoutConnector::new(secured);
    limited.set_connect_timeout(config.connect_timeout);
    limited.set_write_timeout(config.write_timeout);
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(limited);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(authentication)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// Connector to the server or the proxy. A proxy is verified with the server's CA, as in kubectl.
fn connector(config: &Config, proxy: Option<&Proxy>) -> kube::Result<Connector> {
    let mut tcp = HttpConnector::new();
    // URIs with `https` get their TLS above this connector.
    tcp.enforce_http(false);
    if proxy.is_some_and(Proxy::has_tls) {
        let tls = config.rustls_https_connector_with_connector(tcp)?;
        return Ok(BoxCloneSyncService::new(
            tls.map_response(|stream| Box::new(stream) as TcpOrTls),
        ));
    }
    let tcp = tcp.map_response(|stream| Box::new(stream) as TcpOrTls);
    Ok(BoxCloneSyncService::new(tcp.map_err(BoxError::from)))
}

async fn dial(
    connector: Connector,
    proxy: Option<Arc<Proxy>>,
    server: Uri,
) -> Result<ServerStream, BoxError> {
    let Some(proxy) = proxy else {
        let stream = connector.oneshot(server).await?;
        return Ok(ServerStream {
            stream,
            is_forwarded: false,
        });
    };
    let failure = |problem: String| ProxyError {
        proxy: Proxy::clone(&proxy),
        problem,
    };
    let stream = connector.oneshot(proxy.url()?).await;
    let stream =
        stream.map_err(|error| failure(format!("cannot be reached: {}", innermost(error.as_ref()))))?;
    let is_tls = server.scheme() == Some(&Scheme::HTTPS);
    if proxy.protocol() == ProxyProtocol::Http && !is_tls {
        return Ok(ServerStream {
            stream,
            is_forwarded: true,
        });
    }
    let host = server.host().unwrap_or_default();
    let port = server.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let target = format!("{host}:{port}");
    let stream = match proxy.protocol() {
        ProxyProtocol::Http => open_tunnel(stream, &proxy, &target).await,
        ProxyProtocol::Socks => shake_hands(stream, &proxy, &target).await,
    };
    let stream = stream.map_err(|reason| failure(format!("does not connect to {target}: {reason}")))?;
    Ok(ServerStream {
        stream,
        is_forwarded: false,
    })
}

/// Requests a tunnel to `target` from an HTTP proxy. An error is the reason as text.
async fn open_tunnel(stream: TcpOrTls, proxy: &Proxy, target: &str) -> Result<TcpOrTls, String> {
    let explain = |error: hyper::Error| innermost(&error).to_string();
    let (mut sender, connection) = http1::handshake(stream).await.map_err(explain)?;
    // It ends when the tunnel begins, or with the connection.
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::connect(target).header(HOST, target);
    if let Some(value) = proxy.authorization() {
        request = request.header(PROXY_AUTHORIZATION, value);
    }
    let request = request
        .body(Empty::<&[u8]>::new())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(explain)?;
    if !response.status().is_success() {
        return Err(format!("it answers {}", response.status()));
    }
    let tunnel = hyper::upgrade::on(response).await.map_err(explain)?;
    Ok(Box::new(tunnel))
}

/// Requests a connection to `target` from a SOCKS proxy. An error is the reason as text.
async fn shake_hands(stream: TcpOrTls, proxy: &Proxy, target: &str) -> Result<TcpOrTls, String> {
    let target = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(target)
        .path_and_query("/");
    let target = target.build().map_err(|error| error.to_string())?;
    let mut connected = Some(stream);
    let taken = move |_: Uri| {
        ready(
            connected
                .take()
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)),
        )
    };
    let mut socks = SocksV5::new(target.clone(), service_fn(taken));
    if let Some((user, password)) = proxy.login() {
        socks = socks.with_auth(user.to_owned(), password.to_owned());
    }
    socks
        .call(target)
        .await
        .map_err(|error| innermost(&error).to_string())
}

impl Read for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl ConnectionInfo for ServerStream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}
