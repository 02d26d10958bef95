from client.start import main

main()
