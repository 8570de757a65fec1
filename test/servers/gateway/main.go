// KrakenD's engine with what its community edition has of keys, for `npm run bench`: the engine checks a token's
// signature and expiry, and then a limit holds for each token. Its module for limits is not in Go's checksum database,
// so they are a token bucket for each token here. Telemetry and all other parts are left out.
package main

import (
	"net/http"
	"os"
	"sync"

	"github.com/gin-gonic/gin"
	jose "github.com/krakend/krakend-jose/v2"
	ginjose "github.com/krakend/krakend-jose/v2/gin"
	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/logging"
	"github.com/luraproject/lura/v2/proxy"
	router "github.com/luraproject/lura/v2/router/gin"
	"github.com/luraproject/lura/v2/transport/http/server"
	"golang.org/x/time/rate"
)

const perDay, burst = 1e12, 1 << 40

func limited(next router.HandlerFactory) router.HandlerFactory {
	return func(endpoint *config.EndpointConfig, to proxy.Proxy) gin.HandlerFunc {
		handle := next(endpoint, to)
		var limits sync.Map
		return func(c *gin.Context) {
			token := c.GetHeader("Authorization")
			limit, known := limits.Load(token)
			if !known {
				limit, _ = limits.LoadOrStore(token, rate.NewLimiter(perDay/86400, burst))
			}
			if !limit.(*rate.Limiter).Allow() {
				c.AbortWithStatus(http.StatusTooManyRequests)
				return
			}
			handle(c)
		}
	}
}

func main() {
	gin.SetMode(gin.ReleaseMode)
	service, err := config.NewParser().Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	logger, err := logging.NewLogger("WARNING", os.Stderr, "")
	if err != nil {
		panic(err)
	}
	handlers := limited(router.CustomErrorEndpointHandler(logger, server.DefaultToHTTPError))
	router.NewFactory(router.Config{
		Engine:         gin.New(),
		HandlerFactory: ginjose.HandlerFactory(handlers, logger, new(jose.NopRejecterFactory)),
		ProxyFactory:   proxy.DefaultFactory(logger),
		Logger:         logger,
		RunServer:      server.RunServer,
	}).New().Run(service)
}
