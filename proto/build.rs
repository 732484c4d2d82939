//! Build script: compiles the wire contract with protox (no protoc) and stores its descriptor set for gRPC
//! reflection.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    const FILES: [&str; 4] = [
        "proto/headroom/v1alpha1/agent_debug.proto",
        "proto/headroom/v1alpha1/hints.proto",
        "proto/headroom/v1alpha1/debug.proto",
        "proto/headroom/v1alpha1/quota_debug.proto",
    ];
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out.join("headroom.bin"),
        prost::Message::encode_to_vec(&descriptors),
    )?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}
