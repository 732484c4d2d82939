//! Tests of `Intake` with bodies that are whole, slow or withheld, without a socket.

use std::{
    convert::Infallible,
    pin::Pin,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::*;

type Frames = Result<Frame<Bytes>, Infallible>;
type Receiving<'i> = Pin<Box<dyn Future<Output = Result<Received, AdmissionError>> + 'i>>;

/// Room for small bodies, in KiB.
const ROOM: u32 = 1024;

fn intake() -> Intake {
    Intake::new(&Limits {
        body_bytes: 2 << 20,
        concurrent: 1,
        buffered_kib: ROOM,
    })
}

fn body() -> (UnboundedSender<Frames>, StreamBody<UnboundedReceiver<Frames>>) {
    let (sender, receiver) = unbounded();
    (sender, StreamBody::new(receiver))
}

fn send(sender: &UnboundedSender<Frames>, bytes: usize) {
    let data = Bytes::from(vec![b' '; bytes]);
    sender.unbounded_send(Ok(Frame::data(data))).unwrap();
}

/// A body that starts to arrive, with the sender's end.
fn begin(intake: &Intake, announced: Option<usize>) -> (UnboundedSender<Frames>, Receiving<'_>) {
    let (sender, body) = body();
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(600));
    let mut receiving: Receiving<'_> =
        Box::pin(intake.receive(Family::Koordinator, body, announced, usize::MAX, deadline));
    assert!((&mut receiving).now_or_never().is_none());
    (sender, receiving)
}

fn free(intake: &Intake) -> usize {
    intake.others.small.kib.available_permits()
}

#[tokio::test]
async fn a_body_takes_memory_as_it_comes_whatever_was_announced() {
    let intake = intake();
    let mut coming: Vec<_> = (0..2_000).map(|_| begin(&intake, Some(1 << 20))).collect();
    assert_eq!(free(&intake), ROOM as usize);
    for (sender, receiving) in coming.iter_mut().take(100) {
        send(sender, 1);
        assert!(receiving.now_or_never().is_none());
    }
    assert_eq!(free(&intake), ROOM as usize - 100 * 4);
    drop(coming);
    assert_eq!(free(&intake), ROOM as usize);
    assert!(intake.others.small.incoming().is_empty());
}

#[tokio::test]
async fn slow_bodies_are_dropped_oldest_first() {
    let intake = intake();
    let (first, mut oldest) = begin(&intake, Some(1 << 20));
    let (second, mut younger) = begin(&intake, Some(1 << 20));
    for (sender, slow) in [(&first, &mut oldest), (&second, &mut younger)] {
        send(sender, 128 << 10);
        assert!(slow.now_or_never().is_none());
    }
    assert_eq!(free(&intake), 0);
    let (third, mut good) = begin(&intake, Some(300 << 10));
    send(&third, 300 << 10);
    drop(third);
    assert!((&mut good).now_or_never().is_none());
    let error = oldest.now_or_never().unwrap().err().unwrap();
    assert_eq!(
        error.to_string(),
        "the body was dropped in favour of others: the limit of all bodies is 1024 KiB"
    );
    let good = good.now_or_never().unwrap().unwrap();
    assert_eq!(good.bytes().len(), 300 << 10);
    drop(second);
    assert_eq!(younger.now_or_never().unwrap().unwrap().bytes().len(), 128 << 10);
}

#[tokio::test]
async fn a_whole_body_keeps_its_place_until_it_is_answered() {
    let intake = intake();
    let (sender, whole) = begin(&intake, Some(1 << 20));
    send(&sender, 1 << 20);
    drop(sender);
    let whole = whole.now_or_never().unwrap().unwrap();
    let (sender, mut next) = begin(&intake, Some(1000));
    send(&sender, 1000);
    drop(sender);
    assert!((&mut next).now_or_never().is_none());
    drop(whole);
    assert_eq!(next.now_or_never().unwrap().unwrap().bytes().len(), 1000);
}

#[tokio::test]
async fn review_that_waits_gives_up_when_others_need_its_memory() {
    let intake = intake();
    let (sender, whole) = begin(&intake, Some(1 << 20));
    send(&sender, 1 << 20);
    drop(sender);
    let whole = whole.now_or_never().unwrap().unwrap();
    let arrived = whole.unless_needed(std::future::ready("arrived"));
    assert_eq!(arrived.await, Some("arrived"));
    let mut waiting = Box::pin(whole.unless_needed(std::future::pending::<()>()));
    assert!((&mut waiting).now_or_never().is_none());
    let (sender, mut next) = begin(&intake, Some(1000));
    send(&sender, 1000);
    drop(sender);
    assert!((&mut next).now_or_never().is_none());
    assert_eq!(waiting.now_or_never(), Some(None));
    drop(whole);
    assert_eq!(next.now_or_never().unwrap().unwrap().bytes().len(), 1000);
}

#[tokio::test]
async fn long_bodies_leave_the_room_of_others_alone() {
    let intake = intake();
    for announced in [Some(2 << 20), None] {
        let (sender, whole) = begin(&intake, announced);
        send(&sender, 2 << 20);
        drop(sender);
        let whole = whole.now_or_never().unwrap().unwrap();
        assert_eq!((whole.bytes().len(), free(&intake)), (2 << 20, ROOM as usize));
        assert_eq!(intake.others.large.kib.available_permits(), 0);
        assert!(whole.bytes().iter().all(|byte| *byte == b' '));
    }
    assert_eq!(intake.others.large.kib.available_permits(), 2048);
}

#[tokio::test]
async fn a_body_in_many_pieces_takes_the_memory_of_its_bytes() {
    let intake = intake();
    let (sender, whole) = begin(&intake, None);
    for _ in 0..300_000 {
        send(&sender, 1);
    }
    drop(sender);
    let whole = whole.await.unwrap();
    assert_eq!(whole.bytes().len(), 300_000);
    let held = ROOM as usize - free(&intake);
    assert!((300_000..=602_000).contains(&(held * 1024)), "{held} KiB");
    let Buffer::Small(bytes) = whole.buffer else {
        panic!("in pages")
    };
    assert!(bytes.capacity() <= held * 1024, "{} bytes", bytes.capacity());
}

#[tokio::test]
async fn a_body_that_grows_beyond_the_limit_is_refused() {
    let intake = intake();
    let (sender, whole) = begin(&intake, None);
    send(&sender, 2 << 20);
    send(&sender, 1);
    let error = whole.await.err().unwrap();
    assert_eq!(error.to_string(), "the body is longer than 2097152 bytes");
    assert_eq!(intake.others.large.kib.available_permits(), 2048);
}
