//! Simulated kubelets of amplified nodes: each sync finds that the stored values differ from the kubelet's and writes
//! the kubelet's values again. The nodes sync one after another at a steady rate.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, time::interval};
use tracing::error;

use super::api_server::ApiServer;

/// Interval of status writes of one kubelet.
pub(super) const SYNC_EVERY: Duration = Duration::from_secs(10);

/// Results of reviews since the last [`Self::drain`].
#[derive(Debug, Default)]
pub(super) struct Kubelets {
    times_ms: Mutex<Vec<f64>>,
    unanswered: AtomicUsize,
}

impl Kubelets {
    /// Starts to sync, until the runtime ends.
    pub(super) fn start(api: &Arc<ApiServer>, load: &Handle) -> Arc<Self> {
        let kubelets = Arc::new(Self::default());
        let (api, own) = (Arc::clone(api), Arc::clone(&kubelets));
        load.spawn(async move {
            let nodes = api.len();
            let every = SYNC_EVERY / u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
            let mut ticks = interval(every.max(Duration::from_micros(1)));
            for node in (0..nodes).cycle() {
                ticks.tick().await;
                tokio::spawn(Arc::clone(&own).sync(Arc::clone(&api), node));
            }
        });
        kubelets
    }

    /// Review times since the last call, in milliseconds, ascending, and the number of writes without an answer.
    pub(super) fn drain(&self) -> (Vec<f64>, usize) {
        let mut times = std::mem::take(&mut *self.times_ms.lock().unwrap_or_else(PoisonError::into_inner));
        times.sort_by(f64::total_cmp);
        (times, self.unanswered.swap(0, Ordering::Relaxed))
    }

    async fn sync(self: Arc<Self>, api: Arc<ApiServer>, node: usize) {
        match api.sync(node).await {
            Ok(Some(took)) => {
                let mut times = self.times_ms.lock().unwrap_or_else(PoisonError::into_inner);
                times.push(took.as_secs_f64() * 1e3);
            }
            Ok(None) => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => error!("{error:#}"),
        }
    }
}
