from osmo_topology_cli.start import main

main()
