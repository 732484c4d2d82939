//! [`programs`] builds the workspace's programs once for all tests of one test program.

use headroom_testbed::programs::Programs;
use tokio::sync::OnceCell;

/// The workspace's programs, built once per test program.
pub async fn programs() -> Programs {
    static BUILT: OnceCell<Programs> = OnceCell::const_new();
    let build = async || {
        tokio::task::spawn_blocking(Programs::build)
            .await
            .expect("join")
            .expect("build our programs")
    };
    BUILT.get_or_init(build).await.clone()
}
