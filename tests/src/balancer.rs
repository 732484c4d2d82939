//! [`Balancer`] stands in for a Service: one address for several replicas, each connection to the next replica that
//! accepts it.

use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    select,
    task::JoinSet,
    time::timeout,
};

/// Where connections end after their request: one on which nothing was said for so long has had it.
const HAS_ENDED: Duration = Duration::from_millis(60);

/// The address; it ends when dropped.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    replicas: Arc<Mutex<VecDeque<SocketAddr>>>,
    open: Arc<AtomicUsize>,
    _accept: JoinSet<()>,
}

impl Balancer {
    /// Starts without replicas.
    pub async fn start() -> Self {
        Self::with_limit(Duration::MAX).await
    }

    /// As [`Self::start`], but ends each connection after its request, so that the next one goes to the next replica.
    pub async fn taking_turns() -> Self {
        Self::with_limit(HAS_ENDED).await
    }

    async fn with_limit(idle: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let (replicas, open) = (Arc::default(), Arc::default());
        let mut accept = JoinSet::new();
        accept.spawn(serve(listener, Arc::clone(&replicas), Arc::clone(&open), idle));
        Self {
            address,
            replicas,
            open,
            _accept: accept,
        }
    }

    /// The URL of what the replicas serve over TLS.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// True if no connection is open.
    pub fn is_idle(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// From now on new connections go to these.
    pub fn replace(&self, replicas: impl IntoIterator<Item = SocketAddr>) {
        *self.replicas.lock().unwrap_or_else(PoisonError::into_inner) = replicas.into_iter().collect();
    }
}

async fn serve(
    listener: TcpListener,
    replicas: Arc<Mutex<VecDeque<SocketAddr>>>,
    open: Arc<AtomicUsize>,
    idle: Duration,
) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("accept");
        let candidates = {
            let mut replicas = replicas.lock().unwrap_or_else(PoisonError::into_inner);
            if !replicas.is_empty() {
                replicas.rotate_left(1);
            }
            replicas.clone()
        };
        open.fetch_add(1, Ordering::AcqRel);
        let open = Arc::clone(&open);
        connections.spawn(async move {
            forward(client, candidates, idle).await;
            open.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

/// Connects to the first that takes it; without one the client finds its connection closed.
async fn forward(client: TcpStream, candidates: VecDeque<SocketAddr>, idle: Duration) {
    for replica in candidates {
        if let Ok(server) = TcpStream::connect(replica).await {
            // Either side may end at any time.
            carry(client, server, idle).await.ok();
            return;
        }
    }
}

/// Carries bytes both ways until either side ends, or nothing was said for so long.
async fn carry(mut client: TcpStream, mut server: TcpStream, idle: Duration) -> io::Result<()> {
    let (mut asked, mut answered) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut length = 1;
    while length > 0 {
        let said = async {
            select! {
                read = client.read(&mut asked) => {
                    length = read?;
                    server.write_all(&asked[..length]).await
                }
                read = server.read(&mut answered) => {
                    length = read?;
                    client.write_all(&answered[..length]).await
                }
            }
        };
        match timeout(idle, said).await {
            Ok(said) => said?,
            Err(_elapsed) => return Ok(()),
        }
    }
    Ok(())
}
