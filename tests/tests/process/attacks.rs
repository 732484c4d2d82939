//! Attacks on the ports of a replica by clients without a credential, from 16 addresses: memory, refusals and latency
//! while each lasts. The short forms run with all tests, the long ones with `cargo xtask test --long attacks`.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests panic: a returned error has no stack; figures are for people"
)]

use std::{fs, net::Ipv4Addr, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use e2e::{
    admission::{Admission, secure_from},
    built::programs,
    process_resources::counted_kib,
    raw_http2::{RawHttp2, call, message, withhold_handshake},
    slow_bodies::{head, raise_file_limit},
    token_reviewer::{TokenReviewer, token},
};
use headroom_testbed::{programs::get, webhook::Webhook};
use http::StatusCode;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::webhook::{NO_API_SERVER, alone, node_review, spawn, spawn_program};

/// Addresses of the attackers, and as many of others: 127.0.0.1 to 127.0.0.16, and 127.0.0.17 to 127.0.0.32.
const ADDRESSES: u8 = 16;
/// Maximum increase of an idle replica's memory by clients without a credential, in KiB.
const MOST_KIB: u64 = 64 << 10;
/// Pause of a hostile client before it opens a closed connection again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Time in which all agents reconnect. Without optimization, handshakes and clients need several times as long.
const RECONNECT_WITHIN: Duration = if cfg!(debug_assertions) {
    Duration::from_secs(180)
} else {
    Duration::from_secs(30)
};
/// Services of the hint port.
const PATHS: [&str; 4] = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/headroom.v1alpha1.Hints/Report",
    "/headroom.v1alpha1.Debug/ListNodes",
];

fn hostile_address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(
        127,
        0,
        0,
        1 + u8::try_from(number % usize::from(ADDRESSES)).expect("a byte"),
    )
}

fn good_address(number: usize) -> Ipv4Addr {
    let [.., last] = hostile_address(number).octets();
    Ipv4Addr::new(127, 0, 0, ADDRESSES + last)
}

/// Makes a replica hold as much as it does for a client of the hint port without a credential, until it closes the
/// connection.
async fn hold_hints(webhook: &Webhook, number: usize) -> std::io::Result<()> {
    if number % 8 == 7 {
        return withhold_handshake(webhook, hostile_address(number / 8)).await;
    }
    let window = u32::try_from(number % 2).expect("a bit");
    let mut connection = RawHttp2::connect(webhook, hostile_address(number / 8), window).await?;
    let forged = format!("Bearer {}", forged_token(number));
    let needless = vec![("a", ""); 200];
    let paths = PATHS.iter().cycle().skip(number / 2 % PATHS.len());
    for ((stream, turn), path) in [1, 3, 5, 7].into_iter().zip(number / 2..).zip(paths) {
        let mut frames = match turn / PATHS.len() % 2 {
            0 => call(stream, path, &[("authorization", &forged)]),
            _ => call(stream, path, &needless),
        };
        // A complete message of the largest size, or data before the credential is checked; else it is withheld.
        match turn % 3 {
            0 => frames.extend(message(stream, &[0; 4000], true)),
            1 => frames.extend(message(stream, &[0; 15_000], false)),
            _ => {}
        }
        connection.send(&frames).await?;
    }
    connection.until_closed().await;
    Ok(())
}

/// A token with the claims of a valid one, of nearly the greatest length.
fn forged_token(number: usize) -> String {
    let token = token(number).replace("agent-", "forged-");
    format!("{token}{}", "s".repeat(4_000 - token.len()))
}

/// Keeps this number of hostile connections.
fn besiege<F>(connections: usize, hold: impl Fn(usize) -> F + Clone + Send + 'static) -> JoinSet<()>
where
    F: Future<Output = std::io::Result<()>> + Send,
{
    let mut siege = JoinSet::new();
    for number in 0..connections {
        let hold = hold.clone();
        siege.spawn(async move {
            loop {
                drop(hold(number).await);
                sleep(AGAIN_AFTER).await;
            }
        });
    }
    siege
}

/// Opens a stream for each agent, and keeps all; returns the time of the last and the number of attempts.
async fn reconnect(webhook: &Arc<Webhook>, agents: usize) -> (Duration, usize, Vec<RawHttp2>) {
    let begun = Instant::now();
    let mut opening = JoinSet::new();
    for number in 0..agents {
        let webhook = Arc::clone(webhook);
        opening.spawn(async move {
            let mut limit = 100_u64;
            for attempt in 1.. {
                if let Ok(Ok(stream)) = timeout(Duration::from_secs(10), open_agent(&webhook, number)).await {
                    return (attempt, stream);
                }
                // As agents do.
                sleep(Duration::from_millis(rand::random_range(0..limit))).await;
                limit = (2 * limit).min(30_000);
            }
            unreachable!("attempts have no end")
        });
    }
    let opened = opening.join_all().await;
    let attempts = opened.iter().map(|(attempts, _)| attempts).sum();
    let streams = opened.into_iter().map(|(_, stream)| stream).collect();
    (begun.elapsed(), attempts, streams)
}

async fn open_agent(webhook: &Webhook, number: usize) -> std::io::Result<RawHttp2> {
    let mut connection = RawHttp2::connect(webhook, good_address(number), 65_535).await?;
    let bearer = format!("Bearer {}", token(number));
    let opening = call(
        1,
        "/headroom.v1alpha1.Hints/Report",
        &[("authorization", &bearer)],
    );
    connection.send(&opening).await?;
    if connection.is_accepted().await? {
        Ok(connection)
    } else {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }
}

async fn attack_hints(connections: usize, agents: usize) {
    raise_file_limit();
    let folder = tempfile::tempdir().expect("folder");
    let reviewer = TokenReviewer::start().await;
    let webhook = Arc::new(spawn(&folder, &reviewer.kubeconfig(), &[]).await);
    sleep(Duration::from_secs(1)).await;
    let idle = counted_kib(webhook.process.pid(), "VmRSS");
    let attacked = Arc::clone(&webhook);
    let siege = besiege(connections, move |number| {
        let attacked = Arc::clone(&attacked);
        async move { hold_hints(&attacked, number).await }
    });
    // Stalled connections are closed after 10 s, and are opened again.
    sleep(Duration::from_secs(if connections > 500 { 25 } else { 4 })).await;
    let added = counted_kib(webhook.process.pid(), "VmHWM").saturating_sub(idle);
    let (took, attempts, streams) = reconnect(&webhook, agents).await;
    println!(
        "hint port, {connections} hostile connections: {added} KiB above {idle} KiB; {agents} agents reconnected in \
         {took:?} with {attempts} attempts"
    );
    drop((siege, streams));
    assert!(added <= MOST_KIB, "{added} KiB over {idle}");
    assert!(took <= RECONNECT_WITHIN, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_calls_add_little_memory_and_agents_reconnect() {
    attack_hints(160, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_withhold_a_message_end_and_zero_windows_are_closed() {
    let folder = tempfile::tempdir().expect("folder");
    let webhook = alone(&folder, &[]).await;
    let begun = Instant::now();
    let withheld = async {
        let mut connection = RawHttp2::connect(&webhook, hostile_address(0), 65_535).await?;
        let bearer = format!("Bearer {}", token(1));
        let opening = call(
            1,
            "/headroom.v1alpha1.Debug/ListNodes",
            &[("authorization", &bearer)],
        );
        connection.send(&opening).await?;
        let is_accepted = connection.is_accepted().await?;
        Ok::<_, std::io::Error>((is_accepted, begun.elapsed()))
    };
    let zero = async {
        let mut connection = RawHttp2::connect(&webhook, hostile_address(1), 0).await?;
        let mut check = call(1, "/grpc.health.v1.Health/Check", &[]);
        check.extend(message(1, b"", true));
        connection.send(&check).await?;
        connection.until_closed().await;
        Ok::<_, std::io::Error>(begun.elapsed())
    };
    let (withheld, zero) = tokio::join!(withheld, zero);
    let (is_accepted, ended_after) = withheld.expect("an answer");
    assert!(
        !is_accepted && (4..15).contains(&ended_after.as_secs()),
        "{ended_after:?}"
    );
    let closed_after = zero.expect("a connection");
    assert!((9..20).contains(&closed_after.as_secs()), "{closed_after:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: cargo xtask test --long attacks"]
async fn five_thousand_agents_reconnect_while_all_unproven_connections_are_hostile() {
    attack_hints(1_100, 5_000).await;
}

/// Ways to make a replica hold memory for a client of the admission port.
async fn hold_admission(webhook: &Webhook, number: usize) -> std::io::Result<()> {
    let mut stream = secure_from(webhook, hostile_address(number)).await?;
    let head = head("/mutate-node-status", 2_000);
    let padding = format!("x-padding: {}\r\n", "x".repeat(14_000));
    let part_of_body = " ".repeat(1_990);
    let sent = match number % 4 {
        // A head that never ends.
        0 => head
            .replace("host", &format!("{padding}host"))
            .trim_end()
            .to_owned(),
        // A long head, and a body of which ten bytes are missing.
        1 => head.replace("\r\n\r\n", &format!("\r\n{padding}\r\n")) + &part_of_body,
        _ => head + &part_of_body,
    };
    stream.write_all(sent.as_bytes()).await?;
    stream.flush().await?;
    let mut sink = [0; 512];
    while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    Ok(())
}

/// Reviews on fresh connections from an address that no attacker has: the time of each, and the refused ones.
async fn fresh_reviews(webhook: &Webhook, lasting: Duration) -> (Vec<Duration>, Vec<String>) {
    let (until, mut times, mut refused) = (Instant::now() + lasting, Vec::new(), Vec::new());
    while Instant::now() < until {
        let begun = Instant::now();
        let review = async {
            let stream = secure_from(webhook, good_address(0)).await?;
            Ok::<_, std::io::Error>(
                Admission::over(stream)
                    .await
                    .post("/mutate-node-status", &node_review())
                    .await,
            )
        };
        match timeout(Duration::from_secs(10), review).await {
            Ok(Ok((StatusCode::OK, _))) => times.push(begun.elapsed()),
            other => refused.push(format!("{other:?} after {:?}", begun.elapsed())),
        }
        sleep(Duration::from_millis(50)).await;
    }
    times.sort_unstable();
    (times, refused)
}

/// The part of readiness that the self-call decides. Like a kubelet's probe, it may be late twice in a row.
async fn answers_itself(webhook: &Webhook) -> bool {
    for _ in 0..3 {
        match get(webhook.admin, "/readyz?verbose").await {
            Ok((_, text)) => {
                let text = String::from_utf8_lossy(&text);
                let is_ready = text.contains("[+]admission ok");
                if !is_ready {
                    println!("{text}");
                }
                return is_ready;
            }
            Err(error) => println!("{error:#}"),
        }
    }
    false
}

/// The webhook with a limit of open files, of which a quarter are for the admission port.
async fn with_files(folder: &TempDir, files: u64) -> Webhook {
    let program = programs().await.webhook;
    let script = folder.path().join("few-files");
    let text = format!(
        "#!/bin/sh\nulimit -n {files}\nexec {} \"$@\"\n",
        program.display()
    );
    fs::write(&script, text).expect("write");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("make it a program");
    spawn_program(folder, script, NO_API_SERVER, &[]).await
}

async fn attack_admission(webhook: Webhook, connections: usize, lasting: Duration) {
    let webhook = Arc::new(webhook);
    e2e::stand::until("it answers itself", async || answers_itself(&webhook).await).await;
    let idle = counted_kib(webhook.process.pid(), "VmRSS");
    let attacked = Arc::clone(&webhook);
    let siege = besiege(connections, move |number| {
        let attacked = Arc::clone(&attacked);
        async move { hold_admission(&attacked, number).await }
    });
    sleep(Duration::from_secs(2)).await;
    let watched = async {
        let (until, mut unready) = (Instant::now() + lasting, 0);
        while Instant::now() < until {
            unready += u32::from(!answers_itself(&webhook).await);
            sleep(Duration::from_millis(500)).await;
        }
        unready
    };
    let ((times, refused), unready) = tokio::join!(fresh_reviews(&webhook, lasting), watched);
    drop(siege);
    let added = counted_kib(webhook.process.pid(), "VmHWM").saturating_sub(idle);
    let at = |share: usize| times.get(times.len() * share / 100).or(times.last());
    println!(
        "admission port, {connections} hostile connections: {added} KiB above {idle} KiB; {} fresh connections in \
         {lasting:?}, half within {:?}, 99 % within {:?}, {} refused; {unready} times unready",
        times.len(),
        at(50),
        at(99),
        refused.len(),
    );
    assert!(
        refused.is_empty(),
        "{} of {}: {refused:?}",
        refused.len(),
        times.len()
    );
    assert!(
        times.len() >= 2 && unready == 0,
        "{} reviews, {unready} times unready",
        times.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn withheld_bodies_refuse_no_fresh_connection_from_another_address() {
    raise_file_limit();
    let folder = tempfile::tempdir().expect("folder");
    attack_admission(with_files(&folder, 800).await, 300, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: cargo xtask test --long attacks"]
async fn five_thousand_withheld_bodies_refuse_no_fresh_connection() {
    raise_file_limit();
    let folder = tempfile::tempdir().expect("folder");
    attack_admission(alone(&folder, &[]).await, 5_000, Duration::from_secs(60)).await;
}
