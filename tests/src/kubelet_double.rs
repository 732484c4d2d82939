//! [`KubeletDouble`] forwards ports of pods as a kubelet does: TLS, a WebSocket with protocol `v4.channel.k8s.io`,
//! and for each port one channel of data and one of errors. It runs no pods; each pod is a listener on this machine.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use headroom_kit::tls::{CertStore, ClientAuth, MinVersion, self_signed, server_config};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

/// WebSocket subprotocol of port forwarding.
const PROTOCOL: &str = "v4.channel.k8s.io";
/// Data channel of the first port; clients request only one here.
const BYTES: u8 = 0;
const ERRORS: u8 = 1;

/// Addresses of the containers of a pod, by `NAMESPACE/NAME`.
type Listeners = BTreeMap<String, SocketAddr>;

/// The double; ended on drop.
#[derive(Debug)]
pub struct KubeletDouble {
    /// Address for the API server.
    pub address: SocketAddr,
    listeners: Arc<Mutex<Listeners>>,
    _serve: JoinSet<()>,
}

impl KubeletDouble {
    /// Starts a kubelet without pods; its certificate is written to the folder.
    pub async fn start(folder: &Path) -> Self {
        let folder = folder.join("kubelet-tls");
        let now = SystemTime::now();
        let files = self_signed::ensure(&folder, &["localhost".to_owned()], now).expect("a certificate");
        let certificate = CertStore::load("kubelet", files, now).expect("the certificate");
        let tls = server_config(
            certificate,
            MinVersion::default(),
            &ClientAuth::None,
            &["http/1.1"],
        );
        let acceptor = TlsAcceptor::from(tls.expect("settings"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let listeners = Arc::new(Mutex::new(Listeners::new()));
        let mut serve = JoinSet::new();
        serve.spawn(accept(listener, acceptor, Arc::clone(&listeners)));
        Self {
            address,
            listeners,
            _serve: serve,
        }
    }

    /// Sets the address of a pod's containers; with `None` they do not listen.
    pub fn set_pod(&self, namespace: &str, name: &str, listener: Option<SocketAddr>) {
        let pod = format!("{namespace}/{name}");
        let mut listeners = self.listeners.lock().expect("no panic");
        match listener {
            Some(listener) => listeners.insert(pod, listener),
            None => listeners.remove(&pod),
        };
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, listeners: Arc<Mutex<Listeners>>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (acceptor, listeners) = (acceptor.clone(), Arc::clone(&listeners));
        tokio::spawn(async move {
            // A client that closes its connection knows the reason.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request| {
                let response = answer(request, &listeners);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            drop(connection.with_upgrades().await);
        });
    }
}

fn answer(request: Request<Incoming>, listeners: &Mutex<Listeners>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let asked = wanted(request.uri()).filter(|_| is_offered(request.headers()));
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
    let (Some((pod, port)), Some(key)) = (asked, key) else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    };
    let listener = listeners.lock().expect("no panic").get(&pod).copied();
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            forward(upgraded, listener, port).await;
        }
    });
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accepted = derive_accept_key(key.as_bytes());
    for (name, value) in [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL),
        (header::SEC_WEBSOCKET_ACCEPT, &accepted),
    ] {
        let value = HeaderValue::from_str(value).expect("a header");
        response.headers_mut().insert(name, value);
    }
    response
}

/// Pod and port in `/portForward/NAMESPACE/NAME?port=N`.
fn wanted(uri: &Uri) -> Option<(String, u16)> {
    let pod = uri.path().strip_prefix("/portForward/")?;
    let mut parameters = uri.query()?.split('&');
    let port = parameters.find_map(|parameter| parameter.strip_prefix("port="))?;
    Some((pod.to_owned(), port.parse().ok()?))
}

fn is_offered(headers: &HeaderMap) -> bool {
    let offered = headers.get(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.and_then(|value| value.to_str().ok()).unwrap_or_default();
    offered.split(',').any(|protocol| protocol.trim() == PROTOCOL)
}

async fn forward(upgraded: Upgraded, listener: Option<SocketAddr>, port: u16) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    for channel in [BYTES, ERRORS] {
        if socket.send(frame(channel, &port.to_le_bytes())).await.is_err() {
            return;
        }
    }
    let stream = match listener {
        Some(listener) => TcpStream::connect(listener)
            .await
            .map_err(|error| error.to_string()),
        None => Err("nothing listens on it".to_owned()),
    };
    match stream {
        Ok(stream) => copy(socket, stream).await,
        Err(reason) => {
            let text = format!("cannot forward to port {port}: {reason}\n");
            drop(socket.send(frame(ERRORS, text.as_bytes())).await);
            drop(socket.close(None).await);
        }
    }
}

/// Forwards both directions until one side ends.
async fn copy(socket: WebSocketStream<TokioIo<Upgraded>>, stream: TcpStream) {
    let (mut to_client, mut from_client) = socket.split();
    let (mut from_pod, mut to_pod) = stream.into_split();
    let up = async {
        while let Some(Ok(message)) = from_client.next().await {
            let Message::Binary(bytes) = message else { continue };
            let is_written = match bytes.split_first() {
                Some((&BYTES, rest)) => to_pod.write_all(rest).await.is_ok(),
                _ => true,
            };
            if !is_written {
                return;
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(length @ 1..) = from_pod.read(&mut buffer).await {
            if to_client.send(frame(BYTES, &buffer[..length])).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut content = BytesMut::with_capacity(1 + bytes.len());
    content.put_u8(channel);
    content.put_slice(bytes);
    Message::Binary(content.freeze())
}
