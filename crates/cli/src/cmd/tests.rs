//! Tests of the commands against a debug service in this process, over real TLS.

mod bad_input;
mod check;
mod config;
mod pod;
mod quota;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use clap::Parser as _;
use headroom_kit::tls::self_signed::{CA_CERT, ensure};
use headroom_proto::v1alpha1::{
    GetInstallationRequest, GetInstallationResponse, GetSloConfigRequest, GetSloConfigResponse,
    ListNodeLabelsRequest, ListNodeLabelsResponse, ListNodesRequest, ListNodesResponse,
    ListPodDecisionsRequest, ListPodDecisionsResponse, NodeStatus,
    debug_server::{Debug, DebugServer},
    quota_debug_server::QuotaDebugServer,
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig},
};

use crate::{Args, check::tests::healthy, error::Error, output::tests::status, run, screen::Screen};

const NAME: &str = "headroom-hints.headroom-system.svc";
const DEADLINE: Duration = Duration::from_secs(20);

/// A webhook with some nodes and one valid token.
struct Webhook {
    nodes: watch::Receiver<ListNodesResponse>,
    slo: config::SloState,
    decisions: Arc<Mutex<ListPodDecisionsResponse>>,
    /// `None` for a webhook that is older than the request.
    installation: Arc<Mutex<Option<GetInstallationResponse>>>,
}

impl Webhook {
    fn authenticate<T>(request: &Request<T>) -> Result<(), Status> {
        match request.metadata().get("authorization") {
            Some(value) if value == "Bearer good" => Ok(()),
            _ => Err(Status::unauthenticated("the token is not valid")),
        }
    }
}

const PAGE: usize = 800;

/// One page of the requested nodes.
fn page(asked: &ListNodesRequest, nodes: &ListNodesResponse) -> ListNodesResponse {
    let ListNodesRequest { node: wanted, after } = asked;
    let nodes = nodes.nodes.iter();
    let mut rest = nodes.filter(|node| (wanted.is_empty() || node.name == *wanted) && node.name > *after);
    let nodes: Vec<_> = rest.by_ref().take(PAGE).cloned().collect();
    let next = rest.next().and(nodes.last()).map(|last| last.name.clone());
    ListNodesResponse {
        next: next.unwrap_or_default(),
        nodes,
    }
}

/// All pages of the requested nodes.
fn pages(mut asked: ListNodesRequest, nodes: &ListNodesResponse) -> Vec<Result<ListNodesResponse, Status>> {
    let mut pages = Vec::new();
    loop {
        let page = page(&asked, nodes);
        asked.after.clone_from(&page.next);
        pages.push(Ok(page));
        if asked.after.is_empty() {
            return pages;
        }
    }
}

#[tonic::async_trait]
impl Debug for Webhook {
    type WatchNodesStream = ReceiverStream<Result<ListNodesResponse, Status>>;

    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        Self::authenticate(&request)?;
        Ok(Response::new(page(&request.into_inner(), &self.nodes.borrow())))
    }

    async fn watch_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<Self::WatchNodesStream>, Status> {
        Self::authenticate(&request)?;
        let asked = request.into_inner();
        let mut nodes = self.nodes.clone();
        nodes.mark_changed();
        let (pages_tx, answers) = mpsc::channel(1);
        tokio::spawn(async move {
            // The webhook ends the stream after three responses, as during a restart.
            for _ in 0..3 {
                if nodes.changed().await.is_err() {
                    return;
                }
                let pages = pages(asked.clone(), &nodes.borrow_and_update());
                for page in pages {
                    if pages_tx.send(page).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn get_slo_config(
        &self,
        request: Request<GetSloConfigRequest>,
    ) -> Result<Response<GetSloConfigResponse>, Status> {
        Self::authenticate(&request)?;
        Ok(Response::new(self.slo.lock().unwrap().0.clone()))
    }

    async fn list_node_labels(
        &self,
        request: Request<ListNodeLabelsRequest>,
    ) -> Result<Response<ListNodeLabelsResponse>, Status> {
        Self::authenticate(&request)?;
        Ok(Response::new(config::page(&request.into_inner(), &self.slo)))
    }

    async fn list_pod_decisions(
        &self,
        request: Request<ListPodDecisionsRequest>,
    ) -> Result<Response<ListPodDecisionsResponse>, Status> {
        Self::authenticate(&request)?;
        Ok(Response::new(self.decisions.lock().unwrap().clone()))
    }

    async fn get_installation(
        &self,
        request: Request<GetInstallationRequest>,
    ) -> Result<Response<GetInstallationResponse>, Status> {
        Self::authenticate(&request)?;
        let known = self.installation.lock().unwrap().clone();
        known
            .map(Response::new)
            .ok_or_else(|| Status::unimplemented("an older webhook"))
    }
}

/// A running webhook, with the files that a client needs to reach it.
struct Running {
    place: TempDir,
    addr: SocketAddr,
    nodes: watch::Sender<ListNodesResponse>,
    slo: config::SloState,
    decisions: Arc<Mutex<ListPodDecisionsResponse>>,
    installation: Arc<Mutex<Option<GetInstallationResponse>>>,
}

impl Running {
    async fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let files = ensure(place.path(), &[NAME.to_owned()], SystemTime::now()).unwrap();
        let identity = Identity::from_pem(
            std::fs::read(files.cert).unwrap(),
            std::fs::read(files.key).unwrap(),
        );
        let (nodes, received) = watch::channel(ListNodesResponse {
            nodes: vec![status("a"), status("b")],
            next: String::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let slo = config::SloState::default();
        let decisions = Arc::<Mutex<ListPodDecisionsResponse>>::default();
        let installation = Arc::new(Mutex::new(Some(healthy())));
        let webhook = Webhook {
            nodes: received,
            slo: Arc::clone(&slo),
            decisions: Arc::clone(&decisions),
            installation: Arc::clone(&installation),
        };
        let server = Server::builder()
            .tls_config(ServerTlsConfig::new().identity(identity))
            .unwrap()
            .add_service(DebugServer::new(webhook))
            .add_service(QuotaDebugServer::new(quota::Quotas))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        Self {
            place,
            addr,
            nodes,
            slo,
            decisions,
            installation,
        }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.place.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn args(&self, command: &[&str]) -> Args {
        let connect = [
            "kubectl-headroom".to_owned(),
            format!("--addr={}", self.addr),
            format!("--ca-file={}", self.place.path().join(CA_CERT).display()),
            format!("--token-file={}", self.file("token", "good\n").display()),
        ];
        Args::parse_from(
            connect
                .into_iter()
                .chain(command.iter().map(|word| (*word).to_owned())),
        )
    }

    async fn ask(&self, command: &[&str]) -> Result<String, Error> {
        let mut out = Vec::new();
        let mut screen = Screen::plain(&mut out);
        timeout(DEADLINE, run(self.args(command), &mut screen))
            .await
            .expect("it should end")?;
        Ok(String::from_utf8(out).unwrap())
    }
}

/// Output that a test reads while it is written.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Waits until the output meets a condition.
    async fn until(&self, condition: impl Fn(&str) -> bool + Send + Sync) {
        let grown = async {
            while !condition(&self.text()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(DEADLINE, grown).await.is_ok(), "timeout: {}", self.text());
    }
}

#[tokio::test]
async fn all_nodes_or_one_are_printed_once() {
    let webhook = Running::start().await;
    let all = webhook.ask(&["top"]).await.unwrap();
    assert_eq!(all.lines().count(), 1 + 2, "{all}");
    let one = webhook.ask(&["top", "node/b", "-o", "json"]).await.unwrap();
    let rows: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(
        (rows[0]["node"].as_str(), rows.as_array().map(Vec::len)),
        (Some("b"), Some(1))
    );
}

#[tokio::test]
async fn five_thousand_nodes_are_printed() {
    let webhook = Running::start().await;
    let names: Vec<String> = (0..5000).map(|i| format!("node-{i:04}")).collect();
    webhook.nodes.send_modify(|known| {
        let refused = "nodeConfigs[1].bounds.cpu.max: max 11.00 is outside 1.00..10.00; ".repeat(5);
        let nodes = names.iter().map(|name| NodeStatus {
            policy_refused: refused.clone(),
            ..status(name)
        });
        known.nodes = nodes.collect();
        let bytes: usize = known.nodes.iter().map(NodeStatus::bytes).sum();
        assert!(bytes > 4 << 20, "the test needs several messages: {bytes}");
    });
    let all = webhook.ask(&["top", "--once"]).await.unwrap();
    assert_eq!(all.lines().count(), 1 + 5000);
    for command in [&["top", "-o", "json"][..], &["hints", "-o", "json"]] {
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&webhook.ask(command).await.unwrap()).unwrap();
        let shown = rows.iter().map(|row| row["node"].as_str().unwrap());
        assert!(shown.eq(names.iter().map(String::as_str)), "{command:?}");
    }
    let out = Shared::default();
    during(
        webhook.args(&["top", "--watch"]),
        Screen::plain(out.clone()),
        async {
            out.until(|text| text.lines().count() == 5_000).await;
            webhook.nodes.send_modify(|known| {
                let hint = known.nodes[4999].hint.as_mut().unwrap();
                hint.seq += 1;
                hint.resources[0].usage = 4711;
            });
            out.until(|text| text.contains("node=node-4999 mode=auto sees=full cpu-used=4711m"))
                .await;
            assert_eq!(
                out.text().lines().count(),
                5_001,
                "unchanged nodes are not printed"
            );
        },
    )
    .await;
}

#[tokio::test]
async fn one_node_is_explained_and_its_report_printed() {
    let webhook = Running::start().await;
    let page = webhook.ask(&["explain", "node/b"]).await.unwrap();
    assert!(
        page.starts_with("b offers 40,320m of 31,500m cpu (1.28). ") && !page.contains("predicted peak"),
        "{page}"
    );
    // The former name of the command.
    let page = webhook.ask(&["node", "b", "--why"]).await.unwrap();
    assert!(
        page.contains("\nnode b, uid u1") && page.contains("predicted peak"),
        "{page}"
    );
    assert_eq!(
        webhook.ask(&["explain", "b", "-o", "name"]).await.unwrap(),
        "node/b\n"
    );
    let hints = webhook.ask(&["hints", "-o", "json"]).await.unwrap();
    let reports: serde_json::Value = serde_json::from_str(&hints).unwrap();
    assert_eq!(reports[1]["cpu"]["published_cents"], 128);
}

#[tokio::test]
async fn nodes_are_selected_sorted_and_named() {
    let webhook = Running::start().await;
    webhook.nodes.send_modify(|known| {
        known.nodes.push(status("c"));
        for (node, usage) in known.nodes.iter_mut().zip([5, 9, 7]) {
            node.hint.as_mut().unwrap().resources[0].usage = usage;
        }
    });
    for (node, pool) in [("a", "batch"), ("b", "web"), ("c", "batch")] {
        config::label(&webhook.slo, node, "pool", pool);
    }
    for (flags, names) in [
        (&["-l", "pool=batch"][..], "node/a\nnode/c\n"),
        (&["--selector", "pool!=batch"], "node/b\n"),
        (&["--sort-by", "cpu"], "node/b\nnode/c\nnode/a\n"),
        (&["-l", "pool=batch", "--sort-by", "cpu"], "node/c\nnode/a\n"),
    ] {
        let asked = webhook
            .ask(&[&["top", "-o", "name"], flags].concat())
            .await
            .unwrap();
        assert_eq!(asked, names, "{flags:?}");
    }
    let rows = webhook
        .ask(&["top", "--no-headers", "-l", "pool=web"])
        .await
        .unwrap();
    assert!(rows.starts_with("b ") && rows.lines().count() == 1, "{rows}");
    let out = Shared::default();
    let args = webhook.args(&["top", "--watch", "-o", "name", "-l", "pool=web"]);
    during(args, Screen::plain(out.clone()), async {
        out.until(|text| text == "node/b\n").await;
        webhook.nodes.send_modify(|known| {
            known.nodes[0].hint.as_mut().unwrap().seq += 1;
            known.nodes[1].hint.as_mut().unwrap().seq += 1;
        });
        out.until(|text| text == "node/b\nnode/b\n").await;
    })
    .await;
}

#[tokio::test]
async fn versions_are_compared() {
    let webhook = Running::start().await;
    let client = env!("CARGO_PKG_VERSION");
    let newer = GetInstallationResponse {
        version: "99.0.0".to_owned(),
        ..healthy()
    };
    let older = format!("at {}, too old ", webhook.addr);
    for (answer, server) in [
        (Some(newer), "99.0.0, replica webhook-a: another major version"),
        (None, older.as_str()),
    ] {
        *webhook.installation.lock().unwrap() = answer;
        let text = webhook.ask(&["version"]).await.unwrap();
        let start = format!("client: {client}\nserver: {server}");
        assert!(text.starts_with(&start) && text.lines().count() == 2, "{text}");
    }
    let text = webhook.ask(&["version", "--client", "-o", "json"]).await.unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json, serde_json::json!({"client": client, "servers": null}));
}

#[tokio::test]
async fn yaml_output_has_the_fields_of_json() {
    let webhook = Running::start().await;
    let rows = webhook.ask(&["top", "-o", "yaml"]).await.unwrap();
    assert!(
        rows.starts_with("- allocatable_cpu_milli: 40320\n") && rows.contains("node: b\n"),
        "{rows}"
    );
    let error = webhook.ask(&["reasons", "-o", "name"]).await.unwrap_err();
    assert_eq!((error.exit_code(), matches!(error, Error::NoNames)), (2, true));
}

#[tokio::test]
async fn a_server_with_another_name_or_ca_is_refused() {
    let webhook = Running::start().await;
    let foreign = tempfile::tempdir().unwrap();
    ensure(foreign.path(), &[NAME.to_owned()], SystemTime::now()).unwrap();
    let ca = format!("--ca-file={}", foreign.path().join(CA_CERT).display());
    for wrong in ["--tls-server-name=other.svc", &ca] {
        let error = webhook.ask(&["hints", wrong]).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
    }
}

/// Runs a command that does not end by itself until the story ends.
async fn during(args: Args, mut screen: Screen<Shared>, story: impl Future<Output = ()>) {
    tokio::select! {
        ended = run(args, &mut screen) => panic!("it ended: {ended:?}"),
        () = story => {}
    }
}

#[tokio::test]
async fn changes_are_printed_also_after_a_restart_of_the_webhook() {
    let webhook = Running::start().await;
    let out = Shared::default();
    during(webhook.args(&["top", "-w"]), Screen::plain(out.clone()), async {
        out.until(|text| text.lines().count() == 2).await;
        // One stream of this webhook ends after fewer changes.
        for seq in 8..14 {
            webhook.nodes.send_modify(|answer| {
                let hint = answer.nodes[1].hint.as_mut().unwrap();
                hint.seq = seq;
                hint.resources[0].usage = seq;
            });
            let line = format!("node=b mode=auto sees=full cpu-used={seq}m");
            out.until(|text| text.contains(&line)).await;
        }
    })
    .await;
    let unchanged = out
        .text()
        .lines()
        .filter(|line| line.starts_with("node=a "))
        .count();
    assert_eq!(unchanged, 1, "{}", out.text());
}

#[tokio::test]
async fn a_terminal_shows_the_table_redrawn_and_the_reason_of_a_pause() {
    let webhook = Running::start().await;
    let out = Shared::default();
    let screen = Screen::terminal(out.clone(), 24, 80);
    during(webhook.args(&["top", "-w"]), screen, async {
        out.until(|text| text.contains("\x1b[3F\x1b[J")).await;
        for usage in 8..12 {
            webhook.nodes.send_modify(|answer| {
                answer.nodes[0].hint.as_mut().unwrap().resources[0].usage = usage;
            });
            out.until(|text| text.contains(&format!(" {usage}m "))).await;
        }
        out.until(|text| text.contains("the webhook ended the stream; retrying"))
            .await;
    })
    .await;
}
