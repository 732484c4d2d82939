//! `Line` keeps one stream to one hint server: it connects, sends the newest report, receives directives, and
//! reconnects.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use futures::{Stream, stream};
use headroom_domain::{hint::NodeHint, names};
use headroom_kit::{
    log::chain,
    tls::{TlsError, authority, client},
};
use headroom_proto::v1alpha1::{Directive, HintReport, hints_client::HintsClient};
use rustls::pki_types::ServerName;
use tokio::{
    fs, select,
    sync::{mpsc, oneshot, watch},
    time::{Instant, interval_at, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Status,
    metadata::{MetadataValue, errors::InvalidMetadataValue},
    transport::{Channel, Endpoint},
};

use super::backoff::Backoff;
use crate::args::Credential;

/// Timeout of a connection, handshake included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time without data after which a server gets a ping, whatever its kernel acknowledges.
const PING_EVERY: Duration = Duration::from_secs(3);
/// Timeout of the ping: within five seconds of its last data another server is primary.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// Interval for comparing the files of the token and of the CAs with those in use.
const TOKEN_CHECK: Duration = Duration::from_secs(10);

/// Connection parameters and credential for hint servers.
#[derive(Clone, Debug)]
pub struct Access {
    /// The name their certificate is for.
    pub server_name: ServerName<'static>,
    /// CA bundle to check it against.
    pub ca_file: PathBuf,
    /// Credential of the agent.
    pub credential: Credential,
}

/// Event on a stream.
#[derive(Debug)]
pub(super) enum Event {
    /// The server took the stream. The first report waits for the answer, by which it is known whether this stream is
    /// the primary one.
    Opened(oneshot::Sender<()>),
    Directive(Directive),
    /// There is no stream; the reason is text for users.
    Lost(String),
}

/// Reason why a stream could not be opened, or ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// CA, certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token cannot be read.
    #[error("cannot read {}", path.display())]
    Token {
        path: PathBuf,
        /// The reason the system gives.
        #[source]
        source: std::io::Error,
    },
    /// The file does not hold a token.
    #[error("no token in {}", path.display())]
    NotAToken {
        path: PathBuf,
        /// Fault of the token.
        #[source]
        source: InvalidMetadataValue,
    },
    /// The replica is unreachable, or its certificate is not the expected one.
    #[error("cannot connect")]
    Connect(#[source] tonic::transport::Error),
    /// The server, or the connection, ended the stream.
    #[error("{:?}: {}", .0.code(), .0.message())]
    Refused(Box<Status>),
    /// The server ended the stream in order, as when it is about to end.
    #[error("ended by the server")]
    Closed,
}

/// Why a stream that was open ended without an error.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The agent has no more reports.
    NothingToSend,
    /// The token or the CAs were replaced; the next stream uses the new ones.
    NewFiles,
}

/// A connection, and the files that it was made with.
struct Connected {
    channel: Channel,
    /// File and text of the token to present.
    token: Option<(PathBuf, String)>,
    /// Content of the file with CAs.
    authorities: Vec<u8>,
}

/// The parts of one server's stream.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) peer: SocketAddr,
    /// Connection parameters and credential.
    pub(super) access: Arc<Access>,
    /// Newest report; the stream ends when the sender is dropped and the last report was sent.
    pub(super) reports: watch::Receiver<Option<Arc<NodeHint>>>,
    /// The server whose stream is marked as the primary one.
    pub(super) primary: watch::Receiver<Option<SocketAddr>>,
    /// Channel for events.
    pub(super) events: mpsc::Sender<(SocketAddr, Event)>,
    /// Ends the stream at once, for a server that was not chosen again.
    pub(super) dropped: CancellationToken,
    /// Cancelled when the agent ends: no new attempts; an open stream sends its last report first.
    pub(super) stopping: CancellationToken,
}

impl Line {
    /// Keeps a stream open until there is nothing more to report.
    pub(super) async fn keep(self) {
        let dropped = self.dropped.clone();
        select! {
            () = dropped.cancelled() => {}
            () = self.attempts() => {}
        }
    }

    async fn attempts(self) {
        let mut backoff = Backoff::default();
        while !self.stopping.is_cancelled() {
            let began = Instant::now();
            let problem = match self.attempt().await {
                Ok(End::NothingToSend) => return,
                Ok(End::NewFiles) => continue,
                Err(problem) => chain(&problem).to_string(),
            };
            if began.elapsed() >= Backoff::LAST {
                backoff.reset();
            }
            self.notify(Event::Lost(problem)).await;
            select! {
                () = sleep(backoff.next(&mut rand::rng())) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    async fn attempt(&self) -> Result<End, StreamError> {
        let connected = select! {
            connected = self.connect() => connected?,
            () = self.stopping.cancelled() => return Ok(End::NothingToSend),
        };
        let Connected {
            channel,
            token,
            authorities,
        } = connected;
        let (go_tx, go) = oneshot::channel();
        let reports = newest(self.peer, go, self.reports.clone(), self.primary.clone());
        let mut request = Request::new(reports);
        if let Some((path, token)) = &token {
            let mut bearer = MetadataValue::try_from(format!("Bearer {token}")).map_err(|source| {
                StreamError::NotAToken {
                    path: path.clone(),
                    source,
                }
            })?;
            bearer.set_sensitive(true);
            request.metadata_mut().insert("authorization", bearer);
        }
        if let Ok(digest) = MetadataValue::try_from(authority::fingerprint(&authorities)) {
            request.metadata_mut().insert(names::AUTHORITIES_METADATA, digest);
        }
        let refused = |status| StreamError::Refused(Box::new(status));
        let answer = HintsClient::new(channel).report(request).await.map_err(refused)?;
        self.notify(Event::Opened(go_tx)).await;
        let mut directives = answer.into_inner();
        let mut checks = interval_at(Instant::now() + TOKEN_CHECK, TOKEN_CHECK);
        loop {
            select! {
                directive = directives.message() => match directive.map_err(refused)? {
                    Some(directive) => self.notify(Event::Directive(directive)).await,
                    None if self.reports.has_changed().is_err() => return Ok(End::NothingToSend),
                    None => return Err(StreamError::Closed),
                },
                _ = checks.tick() => {
                    if is_replaced(token.as_ref()).await || self.has_new_authorities(&authorities).await {
                        return Ok(End::NewFiles);
                    }
                }
            }
        }
    }

    /// True if the file with CAs contains others that can be used. One that cannot be read just now is no reason to
    /// give up a stream that works.
    async fn has_new_authorities(&self, used: &[u8]) -> bool {
        let path = &self.access.ca_file;
        let is_new = fs::read(path).await.is_ok_and(|now| now != used);
        is_new && client::client_config(path, None, &[]).is_ok()
    }

    /// A connection with files as they are now.
    async fn connect(&self) -> Result<Connected, StreamError> {
        let Access {
            server_name,
            ca_file,
            credential,
        } = &*self.access;
        let (token, files) = match credential {
            Credential::Token(path) => (Some((path.clone(), read_token(path).await?)), None),
            Credential::Certificate(files) => (None, Some(files)),
        };
        // Read before the settings: if the file is replaced in between, the next check notices that.
        let authorities = fs::read(ca_file).await.unwrap_or_default();
        let config = client::client_config(ca_file, files, &["h2"])?;
        let connector = client::Connector::new(config, server_name.clone(), CONNECT_LIMIT);
        let channel = Endpoint::from_shared(format!("http://{}", self.peer))
            .and_then(|endpoint| endpoint.user_agent(user_agent()))
            .map_err(StreamError::Connect)?
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_LIMIT)
            .keep_alive_while_idle(true)
            .connect_with_connector(connector)
            .await
            .map_err(StreamError::Connect)?;
        Ok(Connected {
            channel,
            token,
            authorities,
        })
    }

    async fn notify(&self, event: Event) {
        // The receiver is dropped when the agent ends.
        let _is_heard = self.events.send((self.peer, event)).await.is_ok();
    }
}

/// User agent with our version.
fn user_agent() -> String {
    format!("{}/{}", names::AGENT_USER_AGENT, env!("CARGO_PKG_VERSION"))
}

async fn read_token(path: &PathBuf) -> Result<String, StreamError> {
    let text = fs::read_to_string(path)
        .await
        .map_err(|source| StreamError::Token {
            path: path.clone(),
            source,
        })?;
    Ok(text.trim().to_owned())
}

/// A token file that cannot be read just now is no reason to give up a stream that works.
async fn is_replaced(token: Option<&(PathBuf, String)>) -> bool {
    let Some((path, used)) = token else { return false };
    read_token(path).await.is_ok_and(|now| now != *used)
}

/// Stream of the newest report from `go` on, at the pace of the connection: reports that it did not accept in time
/// are skipped. When the server becomes primary or stops being primary, the newest report repeats that at once, since
/// no replica would write for the node until then.
fn newest(
    peer: SocketAddr,
    go: oneshot::Receiver<()>,
    mut reports: watch::Receiver<Option<Arc<NodeHint>>>,
    primary: watch::Receiver<Option<SocketAddr>>,
) -> impl Stream<Item = HintReport> + Send + 'static {
    reports.mark_changed();
    stream::unfold(
        (Some(go), reports, primary, None),
        move |(go, mut reports, mut primary, mut told)| async move {
            if let Some(go) = go {
                go.await.ok()?;
            }
            loop {
                let is_report = select! {
                    // An error means that the sender is dropped and its last report was sent.
                    changed = reports.changed() => {
                        changed.ok()?;
                        true
                    }
                    Ok(()) = primary.changed() => false,
                };
                let is_primary = *primary.borrow_and_update() == Some(peer);
                if !is_report && told.is_none_or(|told| told == is_primary) {
                    continue;
                }
                let newest = reports.borrow_and_update().clone();
                if let Some(hint) = newest {
                    told = Some(is_primary);
                    let report = HintReport {
                        primary: is_primary,
                        ..HintReport::from(&*hint)
                    };
                    return Some((report, (None, reports, primary, told)));
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::StreamExt as _;
    use headroom_domain::{
        estimate::Profile,
        hint::{AgentMode, ResourceHint},
        resource::PerResource,
    };

    use super::*;

    fn hint(seq: u64) -> Arc<NodeHint> {
        Arc::new(NodeHint {
            node: "n1".into(),
            node_uid: "u1".into(),
            boot_id: "b1".into(),
            seq,
            is_primary: false,
            pods_generation: 1,
            sight: AgentMode::Full,
            timing: Profile::Production,
            is_draining: false,
            resources: PerResource::from_fn(|_| ResourceHint::default()),
            trust: Vec::new(),
            steal_ppm: 0,
            signals: Vec::new(),
            past: None,
            frame_use: None,
        })
    }

    #[tokio::test]
    async fn only_the_newest_report_is_sent_and_the_last_one_ends_the_stream() {
        let (first, other) = (
            SocketAddr::from(([10, 0, 0, 1], 1)),
            SocketAddr::from(([10, 0, 0, 2], 1)),
        );
        let (reports_tx, reports) = watch::channel(None);
        let (primary_tx, primary) = watch::channel(Some(other));
        let (go_tx, go) = oneshot::channel();
        let sent = newest(first, go, reports, primary);
        tokio::pin!(sent);
        for seq in 1..=3 {
            reports_tx.send_replace(Some(hint(seq)));
        }
        assert!(
            futures::poll!(sent.next()).is_pending(),
            "the server has not answered yet"
        );
        go_tx.send(()).unwrap();
        let report = sent.next().await.unwrap();
        assert_eq!((report.seq, report.primary), (3, false));
        primary_tx.send_replace(Some(first));
        reports_tx.send_replace(Some(hint(4)));
        drop(reports_tx);
        let report = sent.next().await.unwrap();
        assert_eq!((report.seq, report.primary), (4, true));
        assert_eq!(sent.next().await, None);
    }

    #[tokio::test]
    async fn a_change_of_the_primary_is_said_at_once_and_only_to_those_whom_it_concerns() {
        let peers = [1, 2, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 1)));
        let (primary_tx, primary) = watch::channel(Some(peers[0]));
        let (reports_tx, reports) = watch::channel(Some(hint(5)));
        let mut streams = peers.map(|peer| {
            let (go_tx, go) = oneshot::channel();
            go_tx.send(()).unwrap();
            Box::pin(newest(peer, go, reports.clone(), primary.clone()))
        });
        for stream in &mut streams {
            assert_eq!(stream.next().await.unwrap().seq, 5);
        }
        primary_tx.send_replace(Some(peers[1]));
        let mut told = Vec::new();
        for stream in &mut streams {
            let report = match futures::poll!(stream.next()) {
                Poll::Ready(report) => report.map(|report| (report.seq, report.primary)),
                Poll::Pending => None,
            };
            told.push(report);
        }
        assert_eq!(told, [Some((5, false)), Some((5, true)), None]);
        reports_tx.send_replace(Some(hint(6)));
        for (stream, is_primary) in streams.iter_mut().zip([false, true, false]) {
            let report = stream.next().await.unwrap();
            assert_eq!((report.seq, report.primary), (6, is_primary));
        }
    }

    #[tokio::test]
    async fn a_new_stream_begins_with_the_report_of_the_moment() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let (reports_tx, mut reports) = watch::channel(None);
        reports_tx.send_replace(Some(hint(9)));
        reports.mark_unchanged();
        let (go_tx, go) = oneshot::channel();
        go_tx.send(()).unwrap();
        let sent = newest(peer, go, reports, watch::channel(None).1);
        tokio::pin!(sent);
        assert_eq!(sent.next().await.unwrap().seq, 9);
    }

    #[tokio::test]
    async fn a_token_is_replaced_when_the_file_has_another_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let used = (path.clone(), read_token(&path).await.unwrap());
        assert_eq!(used.1, "one");
        assert!(!is_replaced(Some(&used)).await);
        std::fs::write(&path, "two").unwrap();
        assert!(is_replaced(Some(&used)).await);
        std::fs::remove_file(&path).unwrap();
        assert!(!is_replaced(Some(&used)).await, "a file in the middle of a swap");
    }
}
