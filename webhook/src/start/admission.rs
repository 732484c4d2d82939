//! Opens the admission port: its router, its threads, and the self-call that readiness requires.

use std::sync::Arc;

use headroom_kit::{
    admin::PartReadiness,
    serve::{Limits, Listener},
    supervise::Supervisor,
};

use super::{StartError, parts::CommonParts, threads::Threads};
use crate::{
    admission::{
        endpoint::Stores,
        endpoints,
        router::{self, Router},
        self_call,
    },
    args::Args,
};

/// Divisor of the open-files limit: connections of the admission port may use this share.
const FILES_OF_ADMISSION: u64 = 4;

/// Opens the admission port over these stores, and calls it repeatedly. It is served until the
/// returned value is dropped.
pub(super) async fn serve(
    args: &Args,
    files: u64,
    parts: &CommonParts<'_>,
    stores: Stores,
    ready: PartReadiness,
    supervisor: &mut Supervisor,
) -> Result<Threads, StartError> {
    let threads = Threads::new().map_err(StartError::Threads)?;
    let tls = args
        .tls
        .server_config(Arc::clone(parts.store) as _, &["http/1.1"])?;
    let limits = Limits::default().at_most(files / FILES_OF_ADMISSION);
    let listener = threads
        .run(Listener::bind("admission", args.admission_addr, limits))
        .await?
        .exempt(args.api_server_addresses.clone());
    let (address, place, shutdown) = (listener.address(), listener.reserved(), supervisor.shutdown());
    let router = Router::new(router::Options {
        endpoints: endpoints::served(&args.serve),
        features: Arc::clone(parts.features),
        stores,
        limits: router::Limits::default(),
        log_sample: args.log_sample,
        callers: parts.callers.clone(),
    });
    let answer = move |request| {
        let router = router.clone();
        async move { router.respond(request).await }
    };
    supervisor.spawn_on(
        threads.handle(),
        "admission",
        listener.serve_http(Some(tls), shutdown.clone(), answer),
    );
    supervisor.spawn("self-call", async move {
        self_call::repeat(address, &place, &ready, shutdown.stopping()).await;
        shutdown.stopping().cancelled().await;
    });
    Ok(threads)
}
