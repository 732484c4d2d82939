//! Tests of the admin port over its socket: probes, metrics, pages, wrong requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use headroom_kit::{
    admin::{Admin, LIMITS, Readiness},
    metric::Catalogue,
    serve::Listener,
    supervise::Shutdown,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    task::JoinHandle,
};

use super::site::within;

struct Port {
    address: SocketAddr,
    readiness: Readiness,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
}

impl Port {
    async fn open() -> Self {
        Self::open_at((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    async fn open_at(address: SocketAddr) -> Self {
        let (recorder, exporter) = Catalogue::new(&[]).unwrap().recorder().unwrap();
        let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
        let admin =
            metrics::with_local_recorder(&recorder, || Admin::new("test", exporter, readiness.clone()));
        let listener = Listener::bind("test", address, LIMITS).await.unwrap();
        let address = listener.address();
        let admin = admin.local_json("/status", || serde_json::json!({ "mode": "FULL" }));
        let serving = tokio::spawn(admin.serve(listener, shutdown.clone()));
        Self {
            address,
            readiness,
            shutdown,
            serving,
        }
    }

    /// Returns status code, content type and body of an answer.
    async fn ask(&self, method: &str, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        within(stream.read_to_string(&mut text)).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let kind = head
            .lines()
            .find_map(|line| line.strip_prefix("content-type: "))
            .unwrap();
        (status, kind.to_owned(), body.to_owned())
    }

    async fn body(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.ask("GET", path).await;
        (status, body)
    }
}

#[tokio::test]
async fn probe_answers_have_the_format_of_kubernetes() {
    let port = Port::open().await;
    assert_eq!(port.body("/livez").await, (200, "ok".to_owned()));
    assert_eq!(port.body("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(
        port.body("/livez?verbose").await,
        (200, "[+]ping ok\nlivez check passed\n".to_owned())
    );

    let cache = port.readiness.handle("cache");
    let lines = "[-]cache failed: not ready yet\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!(port.body("/readyz").await, (503, lines.to_owned()));
    cache.ready();
    assert_eq!(port.body("/readyz").await, (200, "ok".to_owned()));
    let lines = "[+]cache ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(port.body("/readyz?verbose=1").await, (200, lines.to_owned()));
}

#[tokio::test]
async fn a_draining_process_is_alive_but_not_ready_until_it_stops() {
    let mut port = Port::open().await;
    assert_eq!(port.body("/readyz").await.0, 200);
    port.shutdown.drain();
    let lines = "[-]shutdown failed: shutting down\nreadyz check failed\n";
    within(async { while port.body("/readyz").await != (503, lines.to_owned()) {} }).await;
    assert_eq!(port.body("/livez").await.0, 200);
    port.shutdown.stop();
    within(&mut port.serving).await.unwrap();
}

#[tokio::test]
async fn metrics_and_pages_are_shown_in_their_formats() {
    let port = Port::open().await;
    let (status, kind, body) = port.ask("GET", "/metrics").await;
    assert_eq!(
        (status, kind.as_str()),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    let version = env!("CARGO_PKG_VERSION");
    let build = format!(r#"headroom_build_info{{component="test",version="{version}"}} 1"#);
    assert!(body.lines().any(|line| line == build), "{body}");

    let (status, kind, body) = port.ask("GET", "/status").await;
    assert_eq!((status, kind.as_str()), (200, "application/json"));
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&body).unwrap()["mode"],
        "FULL"
    );
}

/// A non-loopback address of this machine; `None` if it has none.
async fn address_of_this_machine() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    // No packet is sent: the kernel only selects the source address.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).await.ok()?;
    Some(socket.local_addr().unwrap().ip())
}

#[tokio::test]
async fn pages_are_local_only_while_probes_and_metrics_are_public() {
    let port = Port::open_at((Ipv4Addr::UNSPECIFIED, 0).into()).await;
    assert_eq!(port.body("/status").await.0, 200);
    let Some(own) = address_of_this_machine().await else {
        panic!("a machine without a network cannot test that remote clients are refused");
    };
    let from_elsewhere = Port {
        address: (own, port.address.port()).into(),
        ..port
    };
    let (status, body) = from_elsewhere.body("/status").await;
    assert_eq!(status, 403, "{body}");
    assert!(!body.contains("FULL"), "{body}");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(from_elsewhere.body(path).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn wrong_paths_and_methods_get_a_hint() {
    let port = Port::open().await;
    let known = "not found; this port serves /livez, /readyz, /healthz, /metrics, /status\n";
    assert_eq!(port.body("/state").await, (404, known.to_owned()));
    assert_eq!(port.ask("POST", "/status").await.0, 405);
    let (status, _, body) = port.ask("HEAD", "/livez").await;
    assert_eq!((status, body.as_str()), (200, ""));
}
