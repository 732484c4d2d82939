//! Tests of signals, logs and file descriptors in a real process: each test starts its own binary again as a child.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics where it breaks")]

use std::{
    env,
    error::Error,
    fs::File,
    future::pending,
    io::{BufRead as _, BufReader},
    iter,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use headroom_kit::{
    log::{self, Format},
    metric::Catalogue,
    serve::{Limits, Listener},
    supervise::{Grace, Shutdown, Supervisor},
};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::yield_now,
    time::timeout,
};

/// Environment variable that selects the role of a child process.
const ROLE: &str = "HEADROOM_KIT_TEST_ROLE";

/// Longer than any step here takes; a test that reaches it has failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A child of this test binary; killed when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(test: &str, role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines_tx, lines) = channel();
        // Ends with the child, or when the receiver is dropped.
        thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| lines_tx.send(line))
        });
        Self { child, lines }
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Returns the log up to and including the first line with this text.
    fn wait_for(&self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            seen += &self.lines.recv_timeout(TEST_TIMEOUT).unwrap();
            seen.push('\n');
        }
        seen
    }

    /// Waits for the child to end and returns the rest of its log.
    fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        loop {
            match self.lines.recv_timeout(TEST_TIMEOUT) {
                Ok(line) => rest = rest + &line + "\n",
                Err(RecvTimeoutError::Disconnected) => return (self.child.wait().unwrap(), rest),
                Err(RecvTimeoutError::Timeout) => panic!("the process does not end: {rest}"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child has exited already in every test that passes.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::main(flavor = "current_thread")]
async fn supervised(has_deaf_task: bool, grace: Grace) -> Result<(), Box<dyn Error>> {
    log::init(Format::Plain, &"info".parse()?)?;
    let mut supervisor = Supervisor::new()?;
    let shutdown = supervisor.shutdown();
    supervisor.spawn("server", async move {
        tracing::info!("up");
        shutdown.draining().cancelled().await;
        tracing::info!("server drains");
        shutdown.stopping().cancelled().await;
        tracing::info!("server stops");
    });
    if has_deaf_task {
        supervisor.spawn("deaf", pending::<()>());
    }
    Ok(supervisor.run(grace).await?)
}

#[test]
fn sigterm_drains_then_stops_and_the_exit_is_clean() {
    if env::var_os(ROLE).is_some() {
        let grace = Grace {
            linger: Duration::from_millis(50),
            deadline: Duration::from_secs(20),
        };
        return supervised(false, grace).unwrap();
    }
    let process = Process::start("sigterm_drains_then_stops_and_the_exit_is_clean", "server");
    process.wait_for("up");
    process.signal(Signal::TERM);
    process.wait_for("server drains");
    process.wait_for("server stops");
    let (status, rest) = process.end();
    assert!(status.success(), "{status}: {rest}");
}

#[test]
fn the_process_serves_on_while_it_lingers_and_a_second_signal_ends_that() {
    if env::var_os(ROLE).is_some() {
        let grace = Grace {
            linger: Duration::from_secs(3600),
            deadline: Duration::from_secs(20),
        };
        return supervised(false, grace).unwrap();
    }
    let test = "the_process_serves_on_while_it_lingers_and_a_second_signal_ends_that";
    let process = Process::start(test, "server");
    process.wait_for("up");
    process.signal(Signal::TERM);
    assert!(!process.wait_for("server drains").contains("server stops"));
    process.signal(Signal::TERM);
    process.wait_for("server stops");
    let (status, rest) = process.end();
    assert!(status.success(), "{status}: {rest}");
}

#[test]
fn a_task_that_ignores_the_stop_is_named_at_the_deadline() {
    if env::var_os(ROLE).is_some() {
        let grace = Grace {
            linger: Duration::ZERO,
            deadline: Duration::from_millis(50),
        };
        return supervised(true, grace).unwrap();
    }
    let process = Process::start("a_task_that_ignores_the_stop_is_named_at_the_deadline", "deaf");
    process.wait_for("up");
    process.signal(Signal::INT);
    let (status, rest) = process.end();
    assert!(
        !status.success() && rest.contains(r#"Late { tasks: "deaf" }"#),
        "{status}: {rest}"
    );
}

#[test]
fn a_second_signal_ends_the_wait() {
    if env::var_os(ROLE).is_some() {
        let grace = Grace {
            linger: Duration::ZERO,
            deadline: Duration::from_secs(3600),
        };
        return supervised(true, grace).unwrap();
    }
    let process = Process::start("a_second_signal_ends_the_wait", "deaf");
    process.wait_for("up");
    process.signal(Signal::TERM);
    process.wait_for("server stops");
    process.signal(Signal::TERM);
    let (status, rest) = process.end();
    assert!(
        !status.success() && rest.contains(r#"Late { tasks: "deaf" }"#),
        "{status}: {rest}"
    );
}

/// Uses up the file descriptors of this process under a running listener, then releases them.
#[tokio::main(flavor = "current_thread")]
async fn starved() {
    let few = Rlimit {
        current: Some(64),
        maximum: Some(64),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let exporter = Catalogue::new(&[]).unwrap().install().unwrap();
    let listener = Listener::bind("test", "127.0.0.1:0".parse().unwrap(), Limits::default())
        .await
        .unwrap();
    let address = listener.address();
    let answer = |_| async { http::Response::new("fed".to_owned()) };
    tokio::spawn(listener.serve_http(None, Shutdown::new(), answer));

    let mut hoard: Vec<_> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // Frees one descriptor for the client's socket; none is left for the server's.
    hoard.pop();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let starved = r#"headroom_serve_accept_errors_total{listener="test"} "#;
    let noticed = async {
        while !exporter.render().contains(starved) {
            yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, noticed).await.unwrap();
    hoard.clear();
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("fed"), "{text}");
}

#[test]
fn a_listener_out_of_file_descriptors_pauses_and_goes_on() {
    if env::var_os(ROLE).is_some() {
        return starved();
    }
    let test = "a_listener_out_of_file_descriptors_pauses_and_goes_on";
    let (status, rest) = Process::start(test, "starved").end();
    assert!(status.success(), "{status}: {rest}");
}

#[test]
fn records_of_the_log_crate_are_written_like_tracing_records() {
    if env::var_os(ROLE).is_some() {
        let levels = log::init(Format::Json, &"warn,loud=info".parse().unwrap()).unwrap();
        ::log::info!(target: "quiet", "not this");
        ::log::info!(target: "loud", "from the kernel side");
        ::log::debug!(target: "loud", "not yet");
        levels.set(&"warn,loud=debug".parse().unwrap());
        ::log::debug!(target: "loud", "after a change of levels");
        levels.set(&"warn".parse().unwrap());
        assert_eq!(
            ::log::max_level(),
            ::log::LevelFilter::Warn,
            "disabled levels are not evaluated"
        );
        assert!(
            log::init(Format::Json, &"info".parse().unwrap()).is_err(),
            "set up twice"
        );
        return;
    }
    let (status, text) = Process::start(
        "records_of_the_log_crate_are_written_like_tracing_records",
        "logger",
    )
    .end();
    assert!(status.success(), "{text}");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let logged: Vec<_> = lines
        .iter()
        .map(|line| (&line["log.target"], &line["level"], &line["message"]))
        .collect();
    let [target, info, debug] = ["loud", "INFO", "DEBUG"].map(serde_json::Value::from);
    let [first, second] = ["from the kernel side", "after a change of levels"].map(serde_json::Value::from);
    assert_eq!(logged, [(&target, &info, &first), (&target, &debug, &second)]);
}
