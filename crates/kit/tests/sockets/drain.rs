//! Tests of a listener's drain: requests in flight finish or are cut at the limit, new connections are refused.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use headroom_kit::serve::Limits;
use tokio::{net::TcpStream, sync::Notify};

use super::site::{Site, answer, closed, get, send, within};

/// A server whose `/slow` waits for a signal, and that notifies when it has started to wait.
async fn slow_site(limits: Limits) -> (Site, Arc<Notify>, Arc<Notify>) {
    let (begun, word) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&word));
    let site = Site::start(limits, None, move |request| {
        let (begun, word) = (Arc::clone(&begins), Arc::clone(&waits));
        async move {
            if request.uri().path() == "/slow" {
                begun.notify_one();
                word.notified().await;
            }
            "done".to_owned()
        }
    })
    .await;
    (site, begun, word)
}

#[tokio::test]
async fn a_request_in_flight_is_finished_and_a_new_connection_refused() {
    let (mut site, begun, word) = slow_site(Limits::default()).await;
    let (mut idle, mut busy) = (site.connect().await, site.connect().await);
    get(&mut idle, "/").await.unwrap();
    send(&mut busy, "/slow").await.unwrap();
    within(begun.notified()).await;

    site.shutdown.stop();
    closed(&mut idle).await;
    assert_eq!(
        TcpStream::connect(site.address).await.unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    assert!(!site.serving.is_finished());

    word.notify_one();
    assert!(answer(&mut busy).await.unwrap().ends_with("done"));
    closed(&mut busy).await;
    within(&mut site.serving).await.unwrap();
}

#[tokio::test]
async fn requests_that_do_not_finish_are_cut() {
    let limits = Limits {
        drain: Duration::from_millis(50),
        ..Limits::default()
    };
    let (mut site, begun, _word) = slow_site(limits).await;
    let mut stuck = site.connect().await;
    send(&mut stuck, "/slow").await.unwrap();
    within(begun.notified()).await;
    site.shutdown.stop();
    within(&mut site.serving).await.unwrap();
    closed(&mut stuck).await;
}

#[tokio::test]
async fn draining_answers_requests_and_asks_clients_to_reconnect() {
    let (site, _begun, _word) = slow_site(Limits::default()).await;
    let mut stream = site.connect().await;
    assert!(!get(&mut stream, "/").await.unwrap().contains("connection: close"));
    site.shutdown.drain();
    assert!(get(&mut stream, "/").await.unwrap().contains("connection: close"));
    closed(&mut stream).await;
    // New connections are still accepted: some clients have not yet noticed the drain.
    assert!(
        get(&mut site.connect().await, "/")
            .await
            .unwrap()
            .ends_with("done")
    );
}

#[tokio::test]
async fn an_old_connection_ends_after_an_answer_and_an_idle_one_stays_open() {
    let limits = Limits {
        age: Some(Duration::from_millis(40)),
        ..Limits::default()
    };
    let (site, _begun, _word) = slow_site(limits).await;
    let mut stream = site.connect().await;
    assert!(!get(&mut stream, "/").await.unwrap().contains("connection: close"));
    // Longer than the age and its quarter: a request that meets a closed connection would be lost.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let last = get(&mut stream, "/").await.unwrap();
    assert!(
        last.contains("connection: close") && last.ends_with("done"),
        "{last}"
    );
    closed(&mut stream).await;
}

#[tokio::test]
async fn a_panic_in_one_request_leaves_the_others_alone() {
    let site = Site::start(Limits::default(), None, |request| async move {
        assert_ne!(request.uri().path(), "/bad", "as asked");
        "good".to_owned()
    })
    .await;
    let (mut good, mut bad) = (site.connect().await, site.connect().await);
    get(&mut good, "/").await.unwrap();
    assert!(get(&mut bad, "/bad").await.is_err());
    assert!(get(&mut good, "/").await.unwrap().ends_with("good"));
    assert!(
        get(&mut site.connect().await, "/")
            .await
            .unwrap()
            .ends_with("good")
    );
}
