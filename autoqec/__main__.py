from cli.autoqec import main

main()
