//! [`Prometheus`] starts a real Prometheus server with samples that a test or the simulator has written.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    path::Path,
    process::Command,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{net::TcpStream, time::sleep};
use xtask::{process::Process, setup::prometheus};

use crate::stand::until;

/// Samples as OpenMetrics text, which `promtool` imports.
#[derive(Debug, Default)]
pub struct Samples(String);

/// A running server; ended on drop.
#[derive(Debug)]
pub struct Prometheus {
    pub url: String,
    pub port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Samples {
    /// Adds a series: its name with labels, as `name{label="value"}`, and pairs of seconds since 1970 and value.
    pub fn series(&mut self, name: &str, samples: impl Iterator<Item = (u64, f64)>) {
        for (at_s, value) in samples {
            writeln!(self.0, "{name} {value} {at_s}").expect("memory");
        }
    }

    /// Adds a label, such as `job="a"`, to each series. All series have other labels already.
    #[must_use]
    pub fn labelled(&self, label: &str) -> Self {
        Self(self.0.replace('{', &format!("{{{label},")))
    }

    /// Adds the other samples.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0 += &other.0;
        self
    }

    /// Shifts the samples by `by_s` seconds.
    #[must_use]
    pub fn later(self, by_s: u64) -> Self {
        let mut later = Self::default();
        for line in self.0.lines() {
            let (series, at_s) = line.rsplit_once(' ').expect("a time at its end");
            let at_s: u64 = at_s.parse().expect("seconds");
            writeln!(later.0, "{series} {}", at_s + by_s).expect("memory");
        }
        later
    }
}

/// The paths of server and tool.
pub fn programs() -> prometheus::Prometheus {
    prometheus::find().expect("Prometheus; cargo xtask setup gets it")
}

impl Prometheus {
    /// Starts a server with these samples.
    pub async fn over(samples: Samples) -> Self {
        Self::over_at(samples, Ipv4Addr::LOCALHOST).await
    }

    /// Starts a server with these samples on this address of the machine.
    pub async fn over_at(samples: Samples, address: Ipv4Addr) -> Self {
        Self::over_socket(samples, SocketAddrV4::new(address, 0)).await
    }

    /// Starts a server with these samples on this loopback port. If another program uses the port, the test waits and
    /// finally fails.
    pub async fn over_port(samples: Samples, port: u16) -> Self {
        Self::over_socket(samples, SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).await
    }

    /// Starts a server with blocks that its tool has written.
    pub async fn over_blocks(blocks: &Path) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        Self::start(&programs().server, folder, blocks, address).await
    }

    async fn over_socket(samples: Samples, address: SocketAddrV4) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let text = folder.path().join("samples");
        fs::write(&text, samples.0 + "# EOF\n").expect("write samples");
        Self::import(folder, &text, address).await
    }

    async fn import(folder: TempDir, text: &Path, address: SocketAddrV4) -> Self {
        let programs = programs();
        let blocks = folder.path().join("blocks");
        let import = Command::new(&programs.tool)
            // One block for all samples: the text is read again for each block.
            .args([
                "tsdb",
                "create-blocks-from",
                "--max-block-duration=8640h",
                "openmetrics",
            ])
            .args([text, &blocks])
            .output()
            .expect("run promtool");
        assert!(import.status.success(), "{import:?}");
        Self::start(&programs.server, folder, &blocks, address).await
    }

    async fn start(program: &Path, folder: TempDir, blocks: &Path, address: SocketAddrV4) -> Self {
        fs::write(folder.path().join("prometheus.yml"), "").expect("write configuration");
        let mut free = None;
        until(&format!("no other program has {address}"), async || {
            let listener = TcpListener::bind(address);
            free = listener.and_then(|listener| listener.local_addr()).ok();
            free.is_some()
        })
        .await;
        let address = free.expect("an address");
        let mut server = Command::new(program);
        server
            .current_dir(folder.path())
            .arg("--config.file=prometheus.yml")
            .arg(format!("--storage.tsdb.path={}", blocks.display()))
            .arg("--storage.tsdb.retention.time=100y")
            .arg(format!("--web.listen-address={address}"));
        let log = folder.path().join("log");
        let mut process = Process::spawn("prometheus", &server, &log, Duration::ZERO).expect("start it");
        while TcpStream::connect(address).await.is_err() {
            process.check().expect("it runs");
            sleep(Duration::from_millis(50)).await;
        }
        Self {
            url: format!("http://{address}"),
            port: address.port(),
            _process: process,
            _folder: folder,
        }
    }
}
