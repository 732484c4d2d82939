//! Reloads the agent's configuration file when it changes: valid content is applied, invalid content is refused.

use std::{path::PathBuf, time::Duration};

use serde::de::DeserializeOwned;
use tokio::{select, task::spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::{ConfigError, load};
use crate::{log::chain, metric::process::CONFIG_RELOADS, watch::Changes};

/// Reads the file when its directory changes and at least every `poll`, until `stop`, and passes each new content to
/// `take`. A refusal is logged once, and the last valid content stays in force.
pub async fn follow<T: DeserializeOwned + PartialEq + Send + 'static>(
    file: PathBuf,
    mut known: T,
    poll: Duration,
    stop: CancellationToken,
    mut take: impl FnMut(&T),
) {
    let mut changes = Changes::watch(&[&file], poll);
    let mut logged = None;
    loop {
        select! {
            () = stop.cancelled() => return,
            () = changes.next() => {}
        }
        let path = file.clone();
        // The inner task is cancelled only if this task is aborted.
        let Ok(loaded) = spawn_blocking(move || load::<T>(&path)).await else {
            return;
        };
        match loaded {
            Ok(now) => {
                logged = None;
                if now != known {
                    CONFIG_RELOADS.with(["loaded"]).increment(1);
                    info!(file = %file.display(), "configuration replaced");
                    take(&now);
                    known = now;
                }
            }
            Err(refusal) => logged = Some(log_refusal(&refusal, logged.as_deref())),
        }
    }
}

/// Logs and counts a refusal unless it repeats the last one; returns its text.
fn log_refusal(refusal: &ConfigError, logged: Option<&str>) -> String {
    let refusal = chain(refusal).to_string();
    if logged != Some(&refusal) {
        CONFIG_RELOADS.with(["failed"]).increment(1);
        error!(
            error = refusal,
            "new configuration refused; the old one stays in force"
        );
    }
    refusal
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

    use tokio::{sync::mpsc, time::timeout};

    use super::*;

    type Numbers = BTreeMap<String, u32>;

    /// Longer than any step here takes; a test that reaches it has failed.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);
    /// A poll interval beyond the life of the test, so that only events can cause a reload.
    const NEVER: Duration = Duration::from_secs(3600);

    /// Replaces the file in the folder the way the kubelet does.
    fn swap(root: &Path, generation: u32, text: &str) {
        let new = root.join(format!("..{generation}"));
        fs::create_dir(&new).unwrap();
        fs::write(new.join("a.yaml"), text).unwrap();
        let link = root.join("..data_tmp");
        symlink(new.file_name().unwrap(), &link).unwrap();
        fs::rename(&link, root.join("..data")).unwrap();
    }

    #[tokio::test]
    async fn a_new_file_is_applied_and_a_bad_one_keeps_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        swap(folder.path(), 0, "a: 1");
        symlink("..data/a.yaml", &file).unwrap();
        let (taken_tx, mut taken) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let known: Numbers = load(&file).unwrap();
        let following = tokio::spawn(follow(file, known, NEVER, stop.clone(), move |now: &Numbers| {
            taken_tx.send(now["a"]).unwrap();
        }));
        swap(folder.path(), 1, "a: 2");
        assert_eq!(timeout(TEST_TIMEOUT, taken.recv()).await.unwrap(), Some(2));
        swap(folder.path(), 2, "a: two");
        swap(folder.path(), 3, "a: 3");
        assert_eq!(timeout(TEST_TIMEOUT, taken.recv()).await.unwrap(), Some(3));
        stop.cancel();
        following.await.unwrap();
        assert_eq!(taken.recv().await, None, "unchanged content is not applied again");
    }

    #[test]
    fn the_same_refusal_is_logged_once() {
        let refusal = |text| super::super::parse::<Numbers>(text, Path::new("a.yaml")).unwrap_err();
        let (recorder, exporter) = crate::metric::Catalogue::new(&[]).unwrap().recorder().unwrap();
        metrics::with_local_recorder(&recorder, || {
            let first = log_refusal(&refusal("a: x"), None);
            let again = log_refusal(&refusal("a: x"), Some(&first));
            log_refusal(&refusal("a: y"), Some(&again));
        });
        let text = exporter.render();
        assert!(
            text.contains(r#"headroom_config_reloads_total{result="failed"} 2"#),
            "{text}"
        );
    }
}
