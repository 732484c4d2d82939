//! Tests of places at a full listener: idle connections are closed for new ones, busy ones are kept.

use std::{sync::Arc, time::Duration};

use headroom_kit::{metric::Catalogue, serve::Limits};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpSocket, TcpStream},
    sync::Notify,
    task::yield_now,
};

use super::site::{Site, answer, closed, get, send, within};

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
