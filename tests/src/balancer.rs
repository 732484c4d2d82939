//! [`Balancer`] stands in for a Service: one address for several replicas. Each connection is forwarded to the next
//! replica that accepts it.

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

/// With one request per connection: idle time after which the request counts as answered.
const HAS_ENDED: Duration = Duration::from_millis(60);

/// The address; closed on drop.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    replicas: Arc<Mutex<VecDeque<SocketAddr>>>,
    open: Arc<AtomicUsize>,
    _accept: JoinSet<()>,
}

impl Balancer {
    pub async fn start() -> Self {
        Self::with_limit(Duration::MAX).await
    }

    /// Starts a balancer like [`Self::start`] that closes each connection after its request, so that the next request
    /// reaches the next replica.
    pub async fn with_one_request_per_connection() -> Self {
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

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// True if no connection is open.
    pub fn is_idle(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Replaces the replicas for new connections.
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

/// Forwards to the first replica that accepts; without one, the client's connection is closed.
async fn forward(client: TcpStream, candidates: VecDeque<SocketAddr>, idle: Duration) {
    for replica in candidates {
        if let Ok(server) = TcpStream::connect(replica).await {
            // Either side may close the connection at any time.
            carry(client, server, idle).await.ok();
            return;
        }
    }
}

/// Forwards bytes in both directions until either side ends or the connection was idle for `idle`.
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
