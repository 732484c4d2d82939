//! Tests of the limits on clients: time for handshakes and request heads, number of connections.

use std::{sync::Arc, time::Duration};

use headroom_kit::{metric::Catalogue, serve::Limits, tls::ClientAuth};
use tokio::{io::AsyncWriteExt as _, sync::Notify, task::yield_now};

use super::site::{Certs, Site, TEST_TIMEOUT, answer, closed, get, send, within};

/// Short limit that a well-behaved client meets on a busy machine.
const SHORT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_half_open_handshake_is_cut_and_others_are_served_meanwhile() {
    let (recorder, exporter) = Catalogue::new(&[]).unwrap().recorder().unwrap();
    // The runtime of this test has one thread, and the server runs on it.
    let _recording = metrics::set_default_local_recorder(&recorder);
    let certs = Certs::new();
    let limits = Limits {
        handshake: SHORT,
        ..Limits::default()
    };
    let site = Site::echo(limits, Some(certs.server(&ClientAuth::None, &["http/1.1"]))).await;
    let mut silent = site.connect().await;
    let mut halting = site.connect().await;
    halting.write_all(b"\x16\x03\x01").await.unwrap();
    let mut stream = site.connect_tls(certs.client(&["http/1.1"])).await.unwrap();
    closed(&mut silent).await;
    closed(&mut halting).await;
    assert!(get(&mut stream, "/fine").await.unwrap().ends_with("/fine"));
    let text = exporter.render();
    let timeouts = r#"headroom_serve_refused_total{listener="test",reason="handshake_timeout"} 2"#;
    assert!(text.contains(timeouts), "{text}");
}

#[tokio::test]
async fn a_slow_head_is_cut_while_an_idle_connection_may_wait() {
    let site = Site::echo(
        Limits {
            header: SHORT,
            ..Limits::default()
        },
        None,
    )
    .await;
    let mut idle = site.connect().await;
    get(&mut idle, "/first").await.unwrap();
    // Each has its full time after the last byte of the idle connection.
    let mut mute = site.connect().await;
    let mut slow = site.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    closed(&mut mute).await;
    closed(&mut slow).await;
    assert!(get(&mut idle, "/second").await.unwrap().ends_with("/second"));
    // A head that comes slowly is cut on a connection that was good before.
    idle.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    closed(&mut idle).await;
}

#[tokio::test]
async fn a_slow_server_does_not_count_against_the_client() {
    let limits = Limits {
        header: SHORT,
        idle: SHORT,
        ..Limits::default()
    };
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let site = Site::start(limits, None, move |_| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            "late".to_owned()
        }
    })
    .await;
    let mut patient = site.connect().await;
    send(&mut patient, "/").await.unwrap();
    // A later connection is cut for sending nothing: the limits have passed for the first one as well.
    let mut mute = site.connect().await;
    closed(&mut mute).await;
    opened.notify_one();
    assert!(answer(&mut patient).await.unwrap().ends_with("late"));
    // The connection is idle now, so a short limit applies.
    closed(&mut patient).await;
}

#[tokio::test]
async fn a_connection_beyond_the_cap_is_closed_while_all_are_young() {
    let (recorder, exporter) = Catalogue::new(&[]).unwrap().recorder().unwrap();
    // The runtime of this test has one thread, and the server runs on it.
    let _recording = metrics::set_default_local_recorder(&recorder);
    let site = Site::echo(
        Limits {
            connections: 2,
            settle: TEST_TIMEOUT,
            ..Limits::default()
        },
        None,
    )
    .await;
    let (mut one, mut two, mut three) = (site.connect().await, site.connect().await, site.connect().await);
    closed(&mut three).await;
    for stream in [&mut one, &mut two] {
        get(stream, "/").await.unwrap();
    }
    let text = exporter.render();
    assert!(
        text.contains(r#"headroom_serve_refused_total{listener="test",reason="full"} 1"#),
        "{text}"
    );
    assert!(
        text.contains(r#"headroom_serve_connections{listener="test"} 2"#),
        "{text}"
    );
    drop(one);
    within(async { while get(&mut site.connect().await, "/").await.is_err() {} }).await;
    get(&mut two, "/").await.unwrap();
    drop(two);
    let none = r#"headroom_serve_connections{listener="test"} 0"#;
    within(async {
        while !exporter.render().contains(none) {
            yield_now().await;
        }
    })
    .await;
}
