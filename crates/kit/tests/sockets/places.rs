//! Tests of places at a full listener: idle connections are closed for new ones, busy ones are kept, and no address takes
//! the places of others.

use std::{sync::Arc, time::Duration};

use headroom_kit::{
    metric::Catalogue,
    serve::{GrpcLimits, Limits, RequestBody},
    supervise::Shutdown,
};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::Notify,
    task::yield_now,
};

use super::site::{Site, TEST_TIMEOUT, answer, bind, closed, get, send, within};

/// Limits under which a connection counts as idle immediately.
fn limits(connections: usize, per_source: Option<usize>) -> Limits {
    Limits {
        connections,
        per_source,
        settle: Duration::ZERO,
        ..Limits::default()
    }
}

/// A connection from another loopback address.
async fn from(host: u8, site: &Site) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    within(socket.connect(site.address)).await.unwrap()
}

#[tokio::test]
async fn a_new_connection_replaces_the_longest_idle() {
    let site = Site::echo(limits(3, None), None).await;
    let (mut a, mut b, mut c) = (site.connect().await, site.connect().await, site.connect().await);
    for stream in [&mut a, &mut b, &mut c] {
        get(stream, "/").await.unwrap();
    }
    get(&mut a, "/again").await.unwrap();
    let mut newcomer = site.connect().await;
    get(&mut newcomer, "/").await.unwrap();
    closed(&mut b).await;
    for stream in [&mut a, &mut c, &mut newcomer] {
        get(stream, "/").await.unwrap();
    }
}

#[tokio::test]
async fn connections_without_a_request_are_closed_first() {
    let site = Site::echo(limits(2, None), None).await;
    let mut used = site.connect().await;
    get(&mut used, "/").await.unwrap();
    let mut mute = site.connect().await;
    get(&mut site.connect().await, "/").await.unwrap();
    closed(&mut mute).await;
    get(&mut used, "/").await.unwrap();
}

#[tokio::test]
async fn one_address_is_limited_to_its_share() {
    let site = Site::echo(limits(8, Some(3)), None).await;
    let (mut one, mut two) = (site.connect().await, site.connect().await);
    for stream in [&mut one, &mut two] {
        get(stream, "/").await.unwrap();
    }
    let mut strangers = Vec::new();
    for _ in 0..50 {
        strangers.push(from(2, &site).await);
    }
    for stranger in strangers.iter_mut().take(47) {
        closed(stranger).await;
    }
    let mut three = from(1, &site).await;
    for stream in [&mut one, &mut two, &mut three] {
        get(stream, "/").await.unwrap();
    }
}

#[tokio::test]
async fn newcomer_replaces_a_connection_of_the_address_with_the_most() {
    let site = Site::echo(limits(8, None), None).await;
    let mut kept = from(1, &site).await;
    get(&mut kept, "/").await.unwrap();
    let mut hostile = Vec::new();
    for host in [2, 3].repeat(100) {
        let mut stream = from(host, &site).await;
        // Closed at once if its address has no idle connection to give.
        drop(get(&mut stream, "/").await);
        hostile.push(stream);
    }
    // The longest idle connection of all, and still open.
    get(&mut kept, "/").await.unwrap();
    let mut fresh = from(1, &site).await;
    get(&mut fresh, "/").await.unwrap();
    get(&mut kept, "/").await.unwrap();
}

#[tokio::test]
async fn flood_of_young_connections_keeps_out_no_other_address() {
    let limits = Limits {
        settle: TEST_TIMEOUT,
        ..limits(8, None)
    };
    let site = Site::echo(limits, None).await;
    let mut flood = Vec::new();
    for _ in 0..50 {
        flood.push(from(2, &site).await);
    }
    for _ in 0..3 {
        get(&mut from(1, &site).await, "/").await.unwrap();
    }
}

#[tokio::test]
async fn connections_of_an_exempt_network_count_against_no_address() {
    let listener = bind(limits(8, None))
        .await
        .exempt(vec!["127.0.0.3".parse().unwrap()]);
    let address = listener.address();
    let answer = |_| async { Response::new("done".to_owned()) };
    let serving = tokio::spawn(listener.serve_http(None, Shutdown::new(), answer));
    let site = Site {
        address,
        shutdown: Shutdown::new(),
        serving,
    };
    let mut of_api_server = Vec::new();
    for _ in 0..6 {
        let mut stream = from(3, &site).await;
        get(&mut stream, "/").await.unwrap();
        of_api_server.push(stream);
    }
    for _ in 0..50 {
        get(&mut from(2, &site).await, "/").await.unwrap();
    }
    for stream in &mut of_api_server {
        get(stream, "/").await.unwrap();
    }
}

/// A site that answers once a request's body is complete, and after a permit.
async fn reading_site(limits: Limits) -> (Site, Arc<Notify>, Arc<Notify>) {
    let (read, permit) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (reads, permits) = (Arc::clone(&read), Arc::clone(&permit));
    let site = Site::start(limits, None, move |request: Request<RequestBody>| {
        let (reads, permits) = (Arc::clone(&reads), Arc::clone(&permits));
        async move {
            let is_complete = request.into_body().collect().await.is_ok();
            reads.notify_one();
            if is_complete {
                permits.notified().await;
            }
            "read".to_owned()
        }
    })
    .await;
    (site, read, permit)
}

#[tokio::test]
async fn connection_that_withholds_a_body_is_idle_and_one_with_a_complete_body_is_not() {
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n";
    let (site, read, permit) = reading_site(limits(2, None)).await;
    let mut complete = site.connect().await;
    complete
        .write_all(format!("{head}0123456789").as_bytes())
        .await
        .unwrap();
    within(read.notified()).await;
    let mut withheld = site.connect().await;
    withheld.write_all(head.as_bytes()).await.unwrap();
    // The newcomer replaces the withheld body.
    let mut newcomer = site.connect().await;
    closed(&mut withheld).await;
    newcomer.write_all(head.as_bytes()).await.unwrap();
    permit.notify_one();
    assert!(answer(&mut complete).await.unwrap().ends_with("read"));
}

#[tokio::test]
async fn reserved_place_is_there_when_all_others_are_busy() {
    let listener = bind(limits(1, None)).await;
    let (address, place) = (listener.address(), listener.reserved());
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&gate));
    let respond = move |request: Request<RequestBody>| {
        let (begins, waits) = (Arc::clone(&begins), Arc::clone(&waits));
        async move {
            if request.uri().path() == "/slow" {
                begins.notify_one();
                waits.notified().await;
            }
            Response::new("done".to_owned())
        }
    };
    let serving = tokio::spawn(listener.serve_http(None, Shutdown::new(), respond));
    let mut busy = TcpStream::connect(address).await.unwrap();
    send(&mut busy, "/slow").await.unwrap();
    within(begun.notified()).await;
    closed(&mut TcpStream::connect(address).await.unwrap()).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    place.set(socket.local_addr().unwrap());
    let mut own = within(socket.connect(address)).await.unwrap();
    get(&mut own, "/").await.unwrap();
    gate.notify_one();
    assert!(answer(&mut busy).await.unwrap().ends_with("done"));
    serving.abort();
}

#[tokio::test]
async fn client_with_a_zero_window_is_closed_and_one_without_data_is_not() {
    let limits = Limits {
        write: Duration::from_millis(300),
        ..Limits::default()
    };
    let listener = bind(limits).await;
    let address = listener.address();
    let answer = |request: Request<RequestBody>| async move {
        if request.uri().path() == "/later" {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Response::new(Full::<Bytes>::from("x".repeat(1000)))
    };
    let serving = tokio::spawn(listener.serve_grpc(GrpcLimits::DEFAULT, None, Shutdown::new(), answer));
    let client = |window: u32| async move {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (sender, connection) = builder.handshake::<_, Empty<Bytes>>(stream).await.unwrap();
        (sender, tokio::spawn(connection))
    };
    let get = |path: &str| {
        let uri = format!("http://a{path}");
        Request::get(uri).body(Empty::new()).unwrap()
    };
    let (mut hostile, ended) = client(0).await;
    let (mut waiting, _open) = client(65_535).await;
    let late = waiting.send_request(get("/later"));
    let response = within(hostile.send_request(get("/"))).await.unwrap();
    drop(within(ended).await);
    assert!(within(response.into_body().collect()).await.is_err());
    // It has waited for the server, and longer than the limit.
    let response = within(late).await.unwrap();
    let body = within(response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body.len(), 1000);
    serving.abort();
}

#[tokio::test]
async fn a_busy_connection_is_not_closed_for_a_new_one() {
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tells, waits) = (Arc::clone(&begun), Arc::clone(&gate));
    let site = Site::start(limits(1, None), None, move |_| {
        let (tells, waits) = (Arc::clone(&tells), Arc::clone(&waits));
        async move {
            tells.notify_one();
            waits.notified().await;
            "late".to_owned()
        }
    })
    .await;
    let mut at_work = site.connect().await;
    send(&mut at_work, "/").await.unwrap();
    within(begun.notified()).await;
    closed(&mut site.connect().await).await;
    gate.notify_one();
    assert!(answer(&mut at_work).await.unwrap().ends_with("late"));
    // The connection is idle now and may be closed.
    gate.notify_one();
    get(&mut site.connect().await, "/").await.unwrap();
    closed(&mut at_work).await;
}

#[tokio::test]
async fn a_response_that_the_client_does_not_read_is_cut() {
    const LENGTH: usize = 64 << 20;
    let (recorder, exporter) = Catalogue::new(&[]).unwrap().recorder().unwrap();
    // The runtime of this test has one thread, and the server runs on it.
    let _recording = metrics::set_default_local_recorder(&recorder);
    let limits = Limits {
        write: Duration::from_millis(300),
        ..Limits::default()
    };
    let site = Site::start(limits, None, |request| async move {
        let length = if request.uri().path() == "/long" {
            LENGTH
        } else {
            5
        };
        "x".repeat(length)
    })
    .await;
    let mut idle = site.connect().await;
    send(&mut idle, "/long").await.unwrap();
    let one = r#"headroom_serve_connections{listener="test"} 1"#;
    let none = r#"headroom_serve_connections{listener="test"} 0"#;
    for state in [one, none] {
        within(async {
            while !exporter.render().contains(state) {
                yield_now().await;
            }
        })
        .await;
    }
    let mut taken = Vec::new();
    // Data in flight still arrives, and perhaps a reset.
    let _end = within(idle.read_to_end(&mut taken)).await;
    assert!(!taken.is_empty() && taken.len() < LENGTH, "{}", taken.len());

    get(&mut site.connect().await, "/short").await.unwrap();
}
